//! Starting, stopping, errors of the start, and ends of the program that started the node.
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use troupe_sandbox::{find_binary, Error, Sandbox, StartOptions, WorldOptions, NEAR};

/// A temporary folder for the homes of nodes.
struct Homes(PathBuf);
impl Homes {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name =
            format!("troupe-homes-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }
    fn options(&self) -> StartOptions {
        StartOptions::new().env("TMPDIR", self.0.to_str().unwrap())
    }
    fn count(&self) -> usize {
        std::fs::read_dir(&self.0).unwrap().count()
    }
}
impl Drop for Homes {
    fn drop(&mut self) {
        // what is left of it is a failure of the test, which has been reported
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn alive(pid: u32) -> bool {
    let out = Command::new("ps").args(["-o", "stat=", "-p", &pid.to_string()]).output().unwrap();
    let state = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    !state.is_empty() && !state.starts_with('Z')
}

#[tokio::test]
async fn two_at_once_and_stop() {
    let homes = Homes::new();
    let (a, b) =
        tokio::join!(Sandbox::start_with(homes.options()), Sandbox::start_with(homes.options()));
    let (a, b) = (a.unwrap(), b.unwrap());
    assert_ne!(a.url(), b.url());
    assert_eq!(homes.count(), 2);
    a.set_balance("only-a.near", 1).await.unwrap();
    assert_eq!(b.account("only-a.near").await.unwrap_err().cause(), Some("UNKNOWN_ACCOUNT"));

    let connected = Sandbox::connect(&format!("{}/", a.url()), 0).await.unwrap();
    assert_eq!((connected.pid(), connected.network_id()), (None, "sandbox"));
    assert_eq!(connected.account("only-a.near").await.unwrap().amount, 1);
    drop(connected);
    a.mine(1).await.unwrap();

    let chain = (*a).clone();
    let pids = [a.pid().unwrap(), b.pid().unwrap()];
    assert!(pids.into_iter().all(alive));
    a.stop().await;
    drop(b);
    assert!(!pids.into_iter().any(alive));
    assert_eq!(homes.count(), 0);
    let err = chain.mine(1).await.unwrap_err();
    assert!(
        matches!(&err, Error::NodeEnded { message, .. } if message.contains("ended with exit code 0")),
        "{err}"
    );
}

#[tokio::test]
async fn fork_of_another_sandbox() {
    let origin = Sandbox::start().await.unwrap();
    origin.create_account("alice.near").balance(7).await.unwrap();
    origin.mine(3).await.unwrap(); // it is final
    let fork = Sandbox::start_with(StartOptions::new().fork(origin.url())).await.unwrap();
    assert_eq!(fork.account("alice.near").await.unwrap().amount, 7);
    fork.set_balance("alice.near", 8).await.unwrap();
    assert_eq!(fork.account("alice.near").await.unwrap().amount, 8);
    assert_eq!(origin.account("alice.near").await.unwrap().amount, 7);
}

#[tokio::test]
async fn options_of_the_chain() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = lines.clone();
    let options = StartOptions::new()
        .accounts(2)
        .balance("12.5")
        .shards(2)
        .host("::1")
        .quiet(false)
        .on_line(move |l| kept.lock().unwrap().push(l.to_owned()));
    let sandbox = Sandbox::start_with(options).await.unwrap();
    assert!(sandbox.url().starts_with("http://[::1]:"), "{}", sandbox.url());
    assert!(sandbox.ws_url().starts_with("ws://[::1]:") && sandbox.ws_url().ends_with("/ws"));
    assert_eq!(sandbox.accounts().len(), 2);
    let [dev0, dev1] = sandbox.accounts() else { panic!() };
    assert_eq!(sandbox.account("dev1.near").await.unwrap().amount, 12 * NEAR + NEAR / 2);
    sandbox.transfer(dev1, dev0.id(), 5).await.unwrap();
    assert!(!sandbox.production().await.unwrap().quiet);
    assert!(lines.lock().unwrap().iter().any(|l| l.contains(sandbox.url())));
    assert!(!sandbox.lines().is_empty() && sandbox.lines().len() <= 50);
    let world = sandbox.new_world_with(WorldOptions::new().port()).await.unwrap();
    let addr = world.info().addr.clone().unwrap();
    let alone = Sandbox::connect(&format!("http://{addr}"), 0).await.unwrap();
    world.set_balance("x.near", 3).await.unwrap();
    assert_eq!(alone.account("x.near").await.unwrap().amount, 3);
}

#[tokio::test]
async fn port_in_use() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = StartOptions::new().port(port);
    match Sandbox::start_with(options.clone()).await.unwrap_err() {
        Error::PortTaken { address } => assert_eq!(address, format!("127.0.0.1:{port}")),
        other => panic!("{other}"),
    }
    drop(listener);
    let sandbox = Sandbox::start_with(options).await.unwrap();
    assert_eq!(sandbox.url(), format!("http://127.0.0.1:{port}"));
}

#[tokio::test]
async fn failed_start_has_the_last_lines() {
    let failed = |options| async {
        match Sandbox::start_with(options).await.unwrap_err() {
            Error::StartFailed { message, lines } => (message, lines),
            other => panic!("{other}"),
        }
    };
    let (message, lines) = failed(StartOptions::new().shards(0)).await;
    assert!(message.contains("--shards is 0"), "{message}");
    assert!(lines.iter().any(|l| l.contains("--shards")), "{lines:?}");
    let (message, _) = failed(StartOptions::new().binary("/bin/false")).await;
    assert!(message.contains("ended with exit code 1"), "{message}");
    let (message, _) = failed(StartOptions::new().start_timeout(Duration::ZERO)).await;
    assert!(message.contains("was not ready after 0ns"), "{message}");
    for path in ["/nowhere/troupe", env!("CARGO_MANIFEST_DIR")] {
        let err = Sandbox::start_with(StartOptions::new().binary(path)).await.unwrap_err();
        assert!(matches!(&err, Error::NoBinary(m) if m.contains(path)), "{err}");
    }
}

#[tokio::test]
async fn no_node_at_an_address() {
    for url in ["", "localhost", "https://localhost:1", "http://", "file:///x"] {
        let err = Sandbox::connect(url, 0).await.unwrap_err();
        assert!(matches!(&err, Error::Input(m) if m.contains("http://")), "{url}: {err}");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut c, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        assert!(c.read(&mut request).unwrap() > 0);
        c.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 5\r\n\r\nhello").unwrap();
    });
    let err = Sandbox::connect(&url, 0).await.unwrap_err();
    assert!(
        matches!(&err, Error::BadReply(m) if m.contains("404") && m.contains("hello")),
        "{err}"
    );
    serving.join().unwrap();
    let err = Sandbox::connect(&url, 0).await.unwrap_err();
    assert!(
        matches!(&err, Error::NodeEnded { message, lines } if message.contains(&url) && lines.is_empty()),
        "{err}"
    );
}

#[tokio::test]
async fn node_that_is_killed() {
    let sandbox = Sandbox::start().await.unwrap();
    let world = sandbox.new_world().await.unwrap();
    kill("KILL", sandbox.pid().unwrap());
    let err = loop {
        if let Err(e) = world.mine(1).await {
            break e;
        }
    };
    assert!(
        matches!(&err, Error::NodeEnded { message, lines } if message.contains("signal 9") && !lines.is_empty()),
        "{err}"
    );
    drop(world);
    sandbox.stop().await;
}

#[tokio::test]
async fn cancelled_start_leaves_nothing() {
    let homes = Homes::new();
    let options = homes.options();
    let start = Sandbox::start_with(options);
    assert!(tokio::time::timeout(Duration::from_millis(5), start).await.is_err());
    // a node that was cut off removes its home, and one that did not get that far has none
    until("the node ends", || homes.count() == 0);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(homes.count(), 0);
}

#[test]
fn binary_is_found() {
    assert!(find_binary().unwrap().is_file());
}

fn kill(signal: &str, pid: u32) {
    let status = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap();
    assert!(status.success());
}

fn until(what: &str, done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < end, "not in 20 s: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program that `runner_ends` starts and ends.
#[tokio::test]
#[ignore = "started by runner_ends"]
async fn runner() {
    let options =
        StartOptions::new().env("TMPDIR", std::env::var("HOMES").expect("set by runner_ends"));
    let (a, b) = tokio::join!(Sandbox::start_with(options.clone()), Sandbox::start_with(options));
    let (a, b) = (a.unwrap(), b.unwrap());
    std::mem::forget(a.new_world().await.unwrap());
    println!("pids {} {} {}", std::process::id(), a.pid().unwrap(), b.pid().unwrap());
    if std::env::var_os("WAIT").is_some() {
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    // as statics, which are never dropped
    std::mem::forget((a, b));
}

/// Ends the runner by a signal, or lets it end. With `parent` it ends the parent of the runner.
fn runner_ends(signal: Option<&str>, parent: bool) {
    let homes = Homes::new();
    let exe = std::env::current_exe().unwrap();
    let mut command = Command::new(if parent { "sh".as_ref() } else { exe.as_os_str() });
    if parent {
        command.args(["-c", "\"$0\" \"$@\" & wait"]).arg(&exe);
    }
    command.args(["--ignored", "--exact", "runner", "--nocapture"]).env("HOMES", &homes.0);
    command.stdout(Stdio::piped());
    if signal.is_some() {
        command.env("WAIT", "1");
    }
    let mut runner = command.spawn().unwrap();
    let mut lines = BufReader::new(runner.stdout.take().unwrap()).lines();
    // the harness writes "test runner ... " before it
    let line =
        lines.by_ref().map(Result::unwrap).find(|l| l.contains("pids ")).expect("a line with pids");
    let (_, pids) = line.split_once("pids ").unwrap();
    let pids: Vec<u32> = pids.split(' ').map(|p| p.parse().unwrap()).collect();
    assert_eq!(pids.len(), 3);
    let (program, pids) = (pids[0], &pids[1..]);
    if let Some(signal) = signal {
        assert!(pids.iter().copied().all(alive));
        assert_eq!(homes.count(), 2);
        kill(signal, runner.id());
    }
    runner.wait().unwrap();
    until("both nodes end", || !pids.iter().copied().any(alive));
    if parent {
        kill("KILL", program);
    }
    assert_eq!(homes.count(), 0);
}

#[test]
fn nothing_is_left_when_the_runner_ends_without_stop() {
    runner_ends(None, false);
}

#[test]
fn nothing_is_left_when_the_runner_is_killed() {
    runner_ends(Some("KILL"), false);
}

#[test]
fn nothing_is_left_when_cargo_is_killed() {
    runner_ends(Some("KILL"), true);
}

#[test]
fn nothing_is_left_when_the_runner_is_interrupted() {
    runner_ends(Some("INT"), false);
}
