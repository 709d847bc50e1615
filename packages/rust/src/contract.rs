use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Error, Result};

const TARGET: &str = "wasm32-unknown-unknown";

/// Compiles the contract of a crate with cargo, in release mode for `wasm32-unknown-unknown`, and
/// returns its WebAssembly. As cargo-near does, it sets `--cfg near`, by which near-sdk uses the host
/// functions of the chain. It blocks, and takes no time if nothing has changed. In a test of the
/// contract's own crate the folder is `env!("CARGO_MANIFEST_DIR")`.
///
/// # Errors
///
/// [`Error::Build`] with the compiler's message; if the crate has no library of the type `cdylib`;
/// or if the target is not installed (`rustup target add wasm32-unknown-unknown`).
pub fn build_contract(folder: impl AsRef<Path>) -> Result<Vec<u8>> {
    let folder = folder.as_ref();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let failed = |what: String| Error::Build(format!("contract {}: {what}", folder.display()));
    let out = Command::new(&cargo)
        .args(["build", "--lib", "--release", "--target", TARGET])
        .arg("--message-format=json-render-diagnostics")
        .arg("--manifest-path")
        .arg(folder.join("Cargo.toml"))
        // in place of flags that are meant for the tests, such as those for coverage
        .env("CARGO_ENCODED_RUSTFLAGS", "--cfg\u{1f}near")
        .env_remove("RUSTFLAGS")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| failed(format!("{} cannot be started: {e}", cargo.to_string_lossy())))?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        let hint = if text.contains("E0463") || text.contains("target may not be installed") {
            format!("\ninstall the target: rustup target add {TARGET}")
        } else {
            String::new()
        };
        return Err(failed(format!("it does not compile:\n{text}{hint}")));
    }
    let manifest = folder.canonicalize().map(|f| f.join("Cargo.toml")).unwrap_or_default();
    let path = artifact(&out.stdout, &manifest).ok_or_else(|| {
        failed("it has no library for contracts: add [lib] crate-type = [\"cdylib\"]".into())
    })?;
    std::fs::read(&path).map_err(|e| failed(format!("read {}: {e}", path.display())))
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
