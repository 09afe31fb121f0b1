use super::*;

/// A folder of a test's own, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-whole-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_has_its_name_when_it_is_finished_and_not_before() {
    let scratch = Scratch::new("file");
    let place = scratch.0.join("file");
    let mut file = WholeFile::create(&place).unwrap();
    file.write_all(b"all").unwrap();
    assert!(!place.exists());
    file.finish().unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"all");
    assert_eq!(scratch.names(), ["file"]);
}

#[test]
fn what_is_given_up_was_never_there() {
    let scratch = Scratch::new("given-up");
    let place = scratch.0.join("file");
    fs::write(&place, b"before").unwrap();
    let mut file = WholeFile::create(&place).unwrap();
    file.write_all(b"half").unwrap();
    drop(file);
    let folder = WholeFolder::create(&scratch.0.join("folder"), false).unwrap();
    folder.file("inner/file").unwrap().write_all(b"half").unwrap();
    drop(folder);
    assert_eq!(scratch.names(), ["file"]);
    assert_eq!(fs::read(&place).unwrap(), b"before");
}

#[test]
fn names_as_long_as_can_be_are_written() {
    let scratch = Scratch::new("long");
    let name = "n".repeat(255);
    WholeFile::create(&scratch.0.join(&name)).unwrap().finish().unwrap();
    assert_eq!(scratch.names(), [name]);
}

#[test]
fn a_folder_is_replaced_as_a_whole_if_that_is_wanted() {
    let scratch = Scratch::new("folder");
    let place = scratch.0.join("folder");
    fs::create_dir(&place).unwrap();
    fs::write(place.join("old"), b"old").unwrap();
    assert_eq!(WholeFolder::create(&place, false).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    let folder = WholeFolder::create(&place, true).unwrap();
    folder.file("new").unwrap();
    assert!(place.join("old").exists());
    folder.finish().unwrap();
    assert!(place.join("new").exists() && !place.join("old").exists());
    assert_eq!(scratch.names(), ["folder"]);
}

#[test]
fn a_place_that_was_taken_meanwhile_is_not_replaced() {
    let scratch = Scratch::new("meanwhile");
    let place = scratch.0.join("folder");
    let folder = WholeFolder::create(&place, false).unwrap();
    fs::create_dir(&place).unwrap();
    fs::write(place.join("theirs"), b"theirs").unwrap();
    assert_eq!(folder.finish().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    assert_eq!(fs::read(place.join("theirs")).unwrap(), b"theirs");
    assert_eq!(scratch.names(), ["folder"]);
}

#[test]
fn files_come_into_a_folder_together_and_leave_others_alone() {
    let scratch = Scratch::new("files");
    let folder = scratch.0.join("folder");
    let put = |names: &[&str]| {
        let mut files = FilesInFolder::create(&folder)?;
        names.iter().try_for_each(|name| files.file(name, name.as_bytes()))?;
        files.finish()
    };
    put(&["one", "two"]).unwrap();
    fs::write(folder.join("mine"), b"mine").unwrap();
    fs::write(folder.join("two"), b"changed").unwrap();
    for bad in ["../out", "a/b", "..", ""] {
        assert_eq!(put(&["two", bad]).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad}");
        assert_eq!(fs::read(folder.join("two")).unwrap(), b"changed");
    }
    put(&["two", "three"]).unwrap();
    let mut found: Vec<_> = fs::read_dir(&folder).unwrap().map(|one| one.unwrap().file_name()).collect();
    found.sort();
    assert_eq!(found, ["mine", "one", "three", "two"]);
    assert_eq!(fs::read(folder.join("two")).unwrap(), b"two");
    assert_eq!(scratch.names(), ["folder"]);
}
