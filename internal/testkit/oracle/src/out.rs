//! Files of vectors: gzipped JSON lines under a header that says how they were made.

use flate2::{Compression, GzBuilder};
use serde::Serialize;
use std::fs::File;
use std::io::Write;
use std::path::Path;

pub struct Out {
    gz: flate2::write::GzEncoder<File>,
    name: String,
    lines: usize,
}

/// The crates that made the vectors, as Cargo.lock has them, with the parameters of a Job's protocol.
fn made_by(protocol: u64) -> String {
    let config = if protocol == 0 { "85 with fix_contract_loading_error".into() } else { protocol.to_string() };
    format!("near-vm-runner 0.38.0, near-parameters 0.38.0 (config {config}), near-primitives 0.38.0, wasmtime 45.0.3, finite-wasm 0.6.1")
}

impl Out {
    pub fn create(dir: &str, name: &str, command: &str) -> Result<Out, String> {
        Out::at(dir, name, command, 0)
    }

    /// A file whose jobs have a protocol.
    pub fn at(dir: &str, name: &str, command: &str, protocol: u64) -> Result<Out, String> {
        let file = File::create(Path::new(dir).join(name)).map_err(|e| format!("{dir}/{name}: {e}"))?;
        let gz = GzBuilder::new().mtime(0).write(file, Compression::best()); // the same bytes each time
        let mut out = Out { gz, name: name.into(), lines: 0 };
        out.line(&serde_json::json!({"made_with": format!("troupe-oracle {command}"), "made_by": made_by(protocol)}))?;
        Ok(out)
    }

    pub fn line(&mut self, v: &impl Serialize) -> Result<(), String> {
        let mut s = serde_json::to_string(v).map_err(|e| e.to_string())?;
        s.push('\n');
        self.lines += 1;
        self.gz.write_all(s.as_bytes()).map_err(|e| e.to_string())
    }

    pub fn close(self) -> Result<(), String> {
        eprintln!("{}: {} lines", self.name, self.lines - 1);
        self.gz.finish().map(|_| ()).map_err(|e| e.to_string())
    }
}
