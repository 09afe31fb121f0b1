// Files and texts that leave the page.

export function save(name, content, kind) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type: kind }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

export const savePicture = (canvas, name) => canvas.toBlob(blob => save(name, blob, "image/png"));

// Gives whether it is in the clipboard.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

// Cells between tabs, with nothing in them that would begin another cell.
export const tabbed = rows => rows.map(row => row.map(cell => String(cell).replace(/[\t\r\n\u2028\u2029]/g, " ")).join("\t")).join("\n") + "\n";
