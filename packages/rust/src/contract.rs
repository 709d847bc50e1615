use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::{Error, Result};

const TARGET: &str = "wasm32-unknown-unknown";

/// Compiles the contract of a crate with cargo, in release mode for `wasm32-unknown-unknown`, and
/// returns its WebAssembly. As cargo-near does, it sets `--cfg near`, by which near-sdk uses the host
/// functions of the chain. In a test of the contract's own crate the folder is
/// `env!("CARGO_MANIFEST_DIR")`.
///
/// It blocks, and takes no time if nothing has changed. The first time it compiles near-sdk, which
/// takes a minute or so. When it begins to compile it writes a line to stderr, also in a test whose
/// output is captured.
///
/// # Errors
///
/// [`Error::Build`] with the compiler's message; if the crate has no library of the type `cdylib`;
/// or if the target is not installed (`rustup target add wasm32-unknown-unknown`).
pub fn build_contract(folder: impl AsRef<Path>) -> Result<Vec<u8>> {
    let folder = folder.as_ref();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    build(cargo, folder, || {
        let folder = folder.display();
        // println would be captured: a test would look as if it hung
        let _ = writeln!(std::io::stderr(), "compiling the contract {folder} for {TARGET} ...");
    })
}

/// Compiles with a cargo, and calls `compiling` once if it compiles anything.
fn build(cargo: OsString, folder: &Path, compiling: impl FnOnce()) -> Result<Vec<u8>> {
    let failed = |what: String| Error::Build(format!("contract {}: {what}", folder.display()));
    let not_started = |e| failed(format!("{} cannot be started: {e}", cargo.to_string_lossy()));
    let mut child = Command::new(&cargo)
        .args(["build", "--lib", "--release", "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        // in place of flags that are meant for the tests, such as those for coverage
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}near")
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(not_started)?;
    let stdout = child.stdout.take();
    let messages = thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.map(|mut out| out.read_to_end(&mut bytes)).transpose().map(|_| bytes)
    });
    let mut text = Vec::new();
    let mut compiling = Some(compiling);
    if let Some(stderr) = child.stderr.take() {
        let mut stderr = BufReader::new(stderr);
        let mut begin = 0;
        while stderr.read_until(b'\n', &mut text).is_ok_and(|n| n > 0) {
            let line = String::from_utf8_lossy(&text[begin..]);
            if line.contains("Compiling ") {
                compiling.take().into_iter().for_each(|f| f());
            }
            begin = text.len();
        }
    }
    let status = child.wait().map_err(|e| failed(format!("wait for cargo: {e}")))?;
    let text = String::from_utf8_lossy(&text);
    if !status.success() {
        return Err(failed(format!("it does not compile:\n{text}{}", hint(&text))));
    }
    let messages = match messages.join() {
        Ok(read) => read.map_err(|e| failed(format!("read the messages of cargo: {e}")))?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    let manifest = folder.canonicalize().map(|f| f.join("Cargo.toml")).unwrap_or_default();
    let path = artifact(&messages, &manifest).ok_or_else(|| {
        failed("it has no library for contracts: add [lib] crate-type = [\"cdylib\"]".into())
    })?;
    std::fs::read(&path).map_err(|e| failed(format!("read {}: {e}", path.display())))
}

/// Returns what to do about errors of cargo whose cause is the setup, each on a line of its own.
fn hint(errors: &str) -> String {
    let mut hint = String::new();
    if errors.contains("E0463") || errors.contains("target may not be installed") {
        hint += &format!("\ninstall the target: rustup target add {TARGET}");
    }
    // features of [dev-dependencies], such as near-sdk's non-contract-usage, are for tests only
    if errors.contains("virtual workspace defaulting to `resolver = \"1\"`") {
        hint += "\nwith resolver 1 the contract gets the features of its dev-dependencies: write \
                 resolver = \"2\" below [workspace] of the workspace's Cargo.toml";
    }
    hint
}

/// Returns the wasm file of a package in the messages of cargo.
fn artifact(messages: &[u8], manifest: &Path) -> Option<PathBuf> {
    let lines = messages.split(|&b| b == b'\n').filter(|l| !l.is_empty());
    lines
        .filter_map(|line| serde_json::from_slice::<Value>(line).ok())
        .filter(|m| m["reason"] == "compiler-artifact")
        .filter(|m| m["manifest_path"].as_str().is_some_and(|p| Path::new(p) == manifest))
        .flat_map(|m| m["filenames"].as_array().cloned().unwrap_or_default())
        .filter_map(|f| f.as_str().map(PathBuf::from))
        .find(|f| f.extension().is_some_and(|e| e == "wasm"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::cell::Cell;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// A program that is started while another script is written would keep that one busy.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// Runs a shell script in place of cargo. Returns the result, and how often it was reported
    /// that something is compiled.
    fn with_cargo(name: &str, script: &str) -> (Result<Vec<u8>>, u32) {
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = std::env::temp_dir().join(format!("troupe-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let dir = dir.canonicalize().unwrap();
        let cargo = dir.join("cargo");
        let script = script.replace("DIR", dir.to_str().unwrap());
        std::fs::write(&cargo, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&cargo, std::fs::Permissions::from_mode(0o755)).unwrap();
        let reports = Cell::new(0);
        let result = build(cargo.into(), &dir, || reports.set(reports.get() + 1));
        std::fs::remove_dir_all(&dir).unwrap();
        (result, reports.get())
    }

    #[test]
    fn compiling_is_reported_once_and_only_then() {
        let built = r#"echo wasm > DIR/a.wasm
            echo '{"reason":"compiler-artifact","manifest_path":"DIR/Cargo.toml","filenames":["DIR/a.wasm"]}'
            echo "    Finished release" >&2"#;
        let (wasm, reports) = with_cargo("fresh", built);
        assert_eq!((wasm.unwrap(), reports), (b"wasm\n".to_vec(), 0));
        let compiles = "echo '   Compiling serde v1' >&2; echo '   Compiling app v1' >&2";
        let (wasm, reports) = with_cargo("compiles", &format!("{compiles}\n{built}"));
        assert_eq!((wasm.unwrap(), reports), (b"wasm\n".to_vec(), 1));
    }

    #[test]
    fn errors_of_the_setup_have_hints() {
        let resolver = "warning: virtual workspace defaulting to `resolver = \"1\"` despite one";
        for (line, wanted) in [
            ("error: expected one of", ""),
            ("error[E0463]: can't find crate", "rustup target add wasm32-unknown-unknown"),
            (resolver, "resolver = \"2\""),
        ] {
            let (result, _) =
                with_cargo("hints", &format!("cat >&2 <<'END'\n{line}\nEND\nexit 101"));
            let err = result.unwrap_err().to_string();
            let (_, hints) = err.split_once(line).unwrap_or_else(|| panic!("{err}"));
            assert!(
                hints.contains(wanted) && hints.trim().is_empty() == wanted.is_empty(),
                "{err}"
            );
        }
    }
}
