//! Programs that the cross compilers make; where one is missing, the test says so and has nothing to check there.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiler with its tools.
pub struct Toolchain {
    pub target: &'static str,
}

static TOOLCHAINS: [Toolchain; 3] = [
    Toolchain { target: "aarch64-linux-gnu" },
    Toolchain { target: "arm-linux-gnueabihf" },
    Toolchain { target: "riscv64-linux-gnu" },
];

impl Toolchain {
    /// Those that are installed.
    pub fn all() -> impl Iterator<Item = &'static Self> {
        TOOLCHAINS.iter().filter(|toolchain| {
            let there = Command::new(toolchain.tool("gcc")).arg("--version").output().is_ok();
            if !there {
                backsight_testing::skipped(format_args!("{} is not installed", toolchain.tool("gcc")));
            }
            there
        })
    }

    fn tool(&self, name: &str) -> String {
        format!("{}-{name}", self.target)
    }

    /// Runs one of the tools on a file, and gives what it printed.
    pub fn run(&self, tool: &str, arguments: &[&str], file: &Path) -> String {
        let output = Command::new(self.tool(tool)).args(arguments).arg(file).output().unwrap();
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Compiles and links C source.
    pub fn program(&self, folder: &Folder, name: &str, source: &str, options: &[&str]) -> PathBuf {
        let (from, to) = (folder.file("source.c"), folder.file(name));
        std::fs::write(&from, source).unwrap();
        let mut arguments: Vec<&str> = vec!["-pie", "-fPIE", "-o", to.to_str().unwrap()];
        arguments.extend(options);
        self.run("gcc", &arguments, &from);
        to
    }
}

/// A folder that goes away with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(test: &str, target: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-{test}-{target}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
