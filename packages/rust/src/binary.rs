use std::env;
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// The variable that names the binary.
const VARIABLE: &str = "TROUPE_BIN";

/// Finds the binary of troupe:
///
/// 1. the file that the environment variable `TROUPE_BIN` names, if it is set;
/// 2. `troupe` in `PATH`, where pip in an active virtual environment installs it too;
/// 3. the virtual environment of `VIRTUAL_ENV`, and `.venv` in the folder of the crate that is
///    tested, in the current folder, and above them;
/// 4. the npm package `@troupe-chain/troupe-PLATFORM` in `node_modules` of those folders;
/// 5. the global packages of the `node` in `PATH`, and `~/.local/bin` of pip.
///
/// # Errors
///
/// [`Error::NoBinary`] if there is none, or `TROUPE_BIN` is not an executable file.
pub fn find_binary() -> Result<PathBuf> {
    find(|name| env::var_os(name).map(PathBuf::from), env::current_dir().ok())
}

/// Finds the binary for an environment and a current folder.
fn find(var: impl Fn(&str) -> Option<PathBuf>, current: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(named) = var(VARIABLE).filter(|p| !p.as_os_str().is_empty()) {
        return check(&named).map_err(|e| Error::NoBinary(format!("{VARIABLE} is {e}")));
    }
    let path = var("PATH").unwrap_or_default();
    let dirs: Vec<PathBuf> =
        env::split_paths(&path).filter(|d| !d.as_os_str().is_empty()).collect();
    let package = npm_package();
    let in_modules = |dir: &Path| {
        let scope = dir.join("node_modules/@troupe-chain");
        let nested = scope.join("sandbox/node_modules/@troupe-chain");
        [scope, nested].map(|d| d.join(&package).join("bin/troupe"))
    };

    let mut candidates: Vec<PathBuf> = dirs.iter().map(|d| d.join("troupe")).collect();
    candidates.extend(var("VIRTUAL_ENV").iter().flat_map(|d| in_python(d)));
    for start in [var("CARGO_MANIFEST_DIR"), current].into_iter().flatten() {
        for dir in start.ancestors() {
            candidates.extend(in_python(&dir.join(".venv")));
            candidates.extend(in_modules(dir));
        }
    }
    for dir in dirs.iter().filter(|d| is_executable(&d.join("node"))) {
        candidates.extend(dir.parent().map(|p| in_modules(&p.join("lib"))).into_iter().flatten());
    }
    candidates.extend(var("HOME").iter().flat_map(|d| in_python(&d.join(".local"))));
    candidates.into_iter().find(|p| is_executable(p)).ok_or_else(|| {
        Error::NoBinary(format!(
            "no binary of troupe in PATH, and none of the npm package @troupe-chain/{package} or the \
             Python package troupe-sandbox: install one of them (npm install --save-dev \
             @troupe-chain/sandbox, or pip install troupe-sandbox), or set {VARIABLE} to a binary"
        ))
    })
}

/// Returns where pip installs the binary below a prefix, and the program that starts it.
fn in_python(prefix: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .filter(|e| e.file_name().to_string_lossy().starts_with("python3"))
        .map(|e| e.path().join("site-packages/troupe_sandbox/bin/troupe"))
        .collect();
    found.sort();
    found.push(prefix.join("bin/troupe"));
    found
}

/// Returns the name of the npm package with the binary for this platform.
fn npm_package() -> String {
    let os = if env::consts::OS == "macos" { "darwin" } else { env::consts::OS };
    let cpu = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("troupe-{os}-{cpu}")
}

/// Returns the path if it is an executable file, else a text with the path and the reason.
pub(crate) fn check(path: &Path) -> Result<PathBuf, String> {
    if is_executable(path) {
        Ok(path.into())
    } else if path.exists() {
        Err(format!("{}, which is not an executable file", path.display()))
    } else {
        Err(format!("{}, which does not exist", path.display()))
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file()
}

#[cfg(all(test, unix))]
mod tests {
    use std::collections::HashMap;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    struct Folder(PathBuf);
    impl Folder {
        fn new() -> Self {
            static NEXT: AtomicU32 = AtomicU32::new(0);
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let dir = env::temp_dir().join(format!("troupe-find-{}-{n}", std::process::id()));
            fs::create_dir_all(&dir).unwrap();
            Self(dir)
        }
        fn file(&self, path: &str, mode: u32) -> PathBuf {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        }
        fn find(&self, vars: &[(&str, &str)]) -> Result<PathBuf> {
            let vars: HashMap<&str, String> =
                vars.iter().map(|&(k, v)| (k, v.replace('@', self.0.to_str().unwrap()))).collect();
            find(|n| vars.get(n).map(PathBuf::from), Some(self.0.join("current/deep")))
        }
    }
    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn variable_comes_first_and_must_be_executable() {
        let f = Folder::new();
        let (good, _) = (f.file("good", 0o755), f.file("bin/troupe", 0o755));
        let bad = f.file("bad", 0o644);
        assert_eq!(f.find(&[("TROUPE_BIN", "@/good"), ("PATH", "@/bin")]).unwrap(), good);
        for (name, word) in [("@/bad", "not an executable"), ("@/none", "does not exist")] {
            let err = f.find(&[("TROUPE_BIN", name), ("PATH", "@/bin")]).unwrap_err();
            assert!(matches!(&err, Error::NoBinary(m) if m.contains(word)), "{err}");
        }
        assert!(bad.exists());
    }

    #[test]
    fn path_comes_before_packages() {
        let f = Folder::new();
        f.file("one/troupe", 0o644);
        fs::create_dir_all(f.0.join("two/troupe")).unwrap();
        let third = f.file("three/troupe", 0o755);
        f.file("current/.venv/bin/troupe", 0o755);
        assert_eq!(f.find(&[("PATH", "@/one::@/two:@/three")]).unwrap(), third);
    }

    #[test]
    fn packages_of_pip_and_npm_are_found() {
        let modules = format!("node_modules/@troupe-chain/{}/bin/troupe", npm_package());
        let nested = format!(
            "node_modules/@troupe-chain/sandbox/node_modules/@troupe-chain/{}/bin/troupe",
            npm_package()
        );
        let site = "lib/python3.13/site-packages/troupe_sandbox/bin/troupe";
        let places = [
            ("venv/bin/troupe".to_string(), vec![("VIRTUAL_ENV", "@/venv")]),
            ("current/.venv/bin/troupe".into(), vec![]),
            ("crate/.venv/bin/troupe".into(), vec![("CARGO_MANIFEST_DIR", "@/crate/member")]),
            (format!("crate/{modules}"), vec![("CARGO_MANIFEST_DIR", "@/crate/member")]),
            (format!("current/deep/{modules}"), vec![]),
            (nested.clone(), vec![]),
            (format!("usr/lib/{nested}"), vec![("PATH", "@/usr/bin")]),
            ("home/.local/bin/troupe".into(), vec![("HOME", "@/home")]),
            (format!("home/.local/{site}"), vec![("HOME", "@/home")]),
            (format!("current/.venv/{site}"), vec![]),
        ];
        for (place, vars) in places {
            let f = Folder::new();
            f.file("usr/bin/node", 0o755);
            assert!(matches!(f.find(&vars), Err(Error::NoBinary(_))), "{place}");
            let path = f.file(&place, 0o755);
            assert_eq!(f.find(&vars).unwrap(), path);
        }
    }

    #[test]
    fn without_a_binary_the_error_names_the_ways() {
        let err = Folder::new().find(&[("PATH", "")]).unwrap_err().to_string();
        for word in ["TROUPE_BIN", "npm install", "pip install", "PATH"] {
            assert!(err.contains(word), "{err}");
        }
    }
}
