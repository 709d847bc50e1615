//! The oracle runs nearcore's published contract runner, to make the vectors that Troupe's own VM is judged by. See README.md.

mod arith;
mod contracts;
mod edges;
mod ext;
mod host;
mod inputs;
mod limits;
mod math;
mod out;
mod random;
mod rows;
mod shapes;
mod vm;

use std::io::BufRead;

const USAGE: &str = "usage: troupe-oracle COMMAND
  run             jobs from stdin, one JSON object a line; their runs to stdout, one line each
  prepare FILE..  the size of what nearcore compiles, or the PrepareError
  config          the parameters used, as nearcore's JSON
  math  DIR       vectors of the math host functions
  random DIR [N]  vectors of random modules; other ones for each N
  host  DIR [N]   vectors of random sequences of host calls
  shapes DIR [N]  recursion, ends of memory and tables, names of exports
  rows  DIR       the figures of nearcore's own tests
  edges DIR       small modules with each byte changed to each value: fit to run or not
  contracts DIR   sessions with internal/testkit/contracts/c; run it at the root of the repository";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let fail = |text: String| -> ! {
        eprintln!("{text}");
        std::process::exit(1)
    };
    let done = match (args.first().map(String::as_str), args.get(1)) {
        (Some("run"), None) => run(),
        (Some("prepare"), Some(_)) => prepare(&args[1..]),
        (Some("config"), None) => config(),
        (Some("math"), Some(dir)) => math::write(dir),
        (Some("random"), Some(dir)) => random::write(dir, seed(&args)),
        (Some("host"), Some(dir)) => host::write(dir, seed(&args)),
        (Some("shapes"), Some(dir)) => shapes::write(dir, seed(&args)),
        (Some("rows"), Some(dir)) => rows::write(dir),
        (Some("edges"), Some(dir)) => edges::write(dir),
        (Some("contracts"), Some(dir)) => contracts::write(dir),
        _ => fail(USAGE.into()),
    };
    if let Err(e) = done {
        fail(e)
    }
}

/// The number behind the directory; 0 is what is committed.
fn seed(args: &[String]) -> u64 {
    args.get(2).and_then(|s| s.parse().ok()).unwrap_or(0)
}

fn run() -> Result<(), String> {
    let mut vm = vm::Vm::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| e.to_string())?;
        let job: vm::Job = serde_json::from_str(&line).map_err(|e| e.to_string())?;
        let answer = match vm.run(&job) {
            Ok(runs) => serde_json::json!({"name": job.name, "prepared": vm.prepared(&job.code()?, job.protocol).ok(), "runs": runs}),
            Err(e) => serde_json::json!({"name": job.name, "fault": e}),
        };
        println!("{answer}");
    }
    Ok(())
}

fn prepare(files: &[String]) -> Result<(), String> {
    let vm = vm::Vm::new();
    for f in files {
        let code = std::fs::read(f).map_err(|e| format!("{f}: {e}"))?;
        match vm.prepared(&code, 0) {
            Ok(n) => println!("{f}\t{n}"),
            Err(e) => println!("{f}\t{e}"),
        }
    }
    Ok(())
}

fn config() -> Result<(), String> {
    let view = near_parameters::RuntimeConfigView::from(vm::Vm::new().config(0)?.clone());
    println!("{}", serde_json::to_string_pretty(&view).map_err(|e| e.to_string())?);
    Ok(())
}
