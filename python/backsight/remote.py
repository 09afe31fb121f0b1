"""Captures and images that lie elsewhere: fetched through fsspec into a folder of this machine.

Paths of this machine and `file://` URLs are used as they are, so a shared folder costs no copy.
"""

import glob
import hashlib
import os
import shutil
import tempfile
import uuid
from pathlib import Path, PurePosixPath
from typing import Any, Optional

from .errors import CaptureError, UsageError

__all__ = ["expand", "local"]


def _is_remote(url: str) -> bool:
    return "://" in url and not url.startswith("file://")


def _plain(url: str) -> str:
    return url[len("file://") :] if url.startswith("file://") else url


def _filesystem(url: str, storage_options: Optional[dict[str, Any]]) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise CaptureError(f"{url}: a URL needs the package fsspec (pip install fsspec)") from error
    try:
        return fsspec.core.url_to_fs(url, **(storage_options or {}))
    except (ValueError, ImportError, OSError) as error:
        raise CaptureError(f"{url}: {error}") from error


def inside(folder: "str | os.PathLike[str]", name: str) -> Path:
    """The file of that name in a folder. Refuses names that lead out of it, by `..` or by a link."""
    root = Path(folder).resolve()
    path = (root / name).resolve()
    if path != root and root not in path.parents:
        raise UsageError(f"{name}: the path leaves the folder {folder}")
    return path


def expand(
    urls: "str | os.PathLike[str] | list[str]",
    folder: "Optional[str | os.PathLike[str]]" = None,
    storage_options: Optional[dict[str, Any]] = None,
) -> list[str]:
    """The captures that are meant, in order: a path or URL, a pattern with `*`, or a list of those.

    With `folder`, all of them are in that folder, and names that lead out of it are refused.
    """
    listed = [os.fspath(urls)] if isinstance(urls, (str, os.PathLike)) else [os.fspath(url) for url in urls]
    found: list[str] = []
    for url in listed:
        if folder is not None:
            if _is_remote(url):
                raise UsageError(f"{url}: a URL is not in the folder {folder}")
            url = str(inside(folder, url))
        if not glob.has_magic(url):
            found.append(url)
            continue
        if _is_remote(url):
            filesystem, pattern = _filesystem(url, storage_options)
            matches = sorted(filesystem.unstrip_protocol(path) for path in filesystem.glob(pattern))
        else:
            matches = sorted(glob.glob(_plain(url)))
        if not matches:
            raise CaptureError(f"{url}: nothing matches")
        found.extend(matches)
    if folder is not None:
        found = [str(inside(folder, url)) for url in found]
    return found


def _cache_folder(cache: "Optional[str | os.PathLike[str]]") -> Path:
    base = cache or os.environ.get("BACKSIGHT_CACHE") or Path(tempfile.gettempdir()) / f"backsight-{os.getuid()}"
    path = Path(base)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def _relative(name: str, root: str, url: str) -> PurePosixPath:
    """The path of a file below its folder, as a listing has it."""
    relative = PurePosixPath(name[len(root) :].lstrip("/")) if name.startswith(root) else PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts or not relative.parts or "\\" in str(relative):
        raise CaptureError(f"{url}: the path {name} leaves its folder")
    return relative


def local(
    url: str,
    cache: "Optional[str | os.PathLike[str]]" = None,
    storage_options: Optional[dict[str, Any]] = None,
) -> str:
    """The path of a capture or an image on this machine. One that lies elsewhere is fetched, once for each version of it."""
    if not _is_remote(url):
        return _plain(url)
    filesystem, root = _filesystem(url, storage_options)
    try:
        if filesystem.isdir(root):
            names = sorted(filesystem.find(root))
            files = {_relative(name, root.rstrip("/") + "/", url): name for name in names}
        elif filesystem.exists(root):
            files = {PurePosixPath(PurePosixPath(root).name): root}
        else:
            raise CaptureError(f"{url}: there is no such file or folder")
        version = hashlib.sha256(url.encode())
        for relative, name in files.items():
            version.update(f"\0{relative}\0{filesystem.ukey(name)}".encode())
        folder = _cache_folder(cache) / version.hexdigest()[:32]
        if not folder.is_dir():
            _fetch(filesystem, files, folder)
        is_file = set(files.values()) == {root}
        return str(folder / next(iter(files))) if is_file else str(folder)
    except CaptureError:
        raise
    except OSError as error:
        raise CaptureError(f"{url}: {error}") from error


def _fetch(filesystem: Any, files: dict[PurePosixPath, str], folder: Path) -> None:
    # Another process may be fetching the same: the one that is done first gives the folder its name.
    part = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.part")
    try:
        for relative, name in files.items():
            target = part / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            filesystem.get_file(name, str(target))
        os.rename(part, folder)
    except OSError:
        if not folder.is_dir():
            raise
    finally:
        shutil.rmtree(part, ignore_errors=True)
