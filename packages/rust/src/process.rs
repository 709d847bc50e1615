use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

/// What the node writes is kept to this many lines of this many bytes.
const KEPT_LINES: usize = 50;
const MAX_LINE: u64 = 64 << 10;
/// How long the node may take to end before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);
#[cfg(unix)]
const PARENT_POLL: Duration = Duration::from_millis(500);

/// A function that gets each line that the node writes.
pub(crate) type OnLine = Arc<dyn Fn(&str) + Send + Sync>;

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process of a node. It ends when its stdin is closed: the kernel closes the pipe however this
/// process ends.
#[derive(Debug)]
struct Process(Mutex<Child>);

impl Process {
    /// Returns how the process ended; waits for it at most for some time.
    fn ended_within(&self, limit: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + limit;
        loop {
            if let Ok(Some(status)) = lock(&self.0).try_wait() {
                return Some(status);
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(POLL);
        }
    }

    /// Closes stdin, and kills the process if it has not ended in time. Does nothing if it has ended.
    fn stop(&self) {
        drop(lock(&self.0).stdin.take());
        if self.ended_within(STOP_TIMEOUT).is_none() {
            let mut child = lock(&self.0);
            // it may have ended by now; wait then returns at once
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns whether cargo or nextest started this process. It goes on when they are killed.
#[cfg(unix)]
fn is_of_cargo() -> bool {
    std::env::var_os("CARGO_MANIFEST_DIR").is_some()
}

/// Closes the stdin of a node when the parent of this process has ended.
#[cfg(unix)]
fn stop_with_parent(process: std::sync::Weak<Process>) -> std::io::Result<()> {
    use std::os::unix::process::parent_id;
    let parent = parent_id();
    let watch = move || loop {
        std::thread::sleep(PARENT_POLL);
        match process.upgrade() {
            Some(process) if parent_id() == parent => drop(process),
            Some(process) => return drop(lock(&process.0).stdin.take()),
            None => return,
        }
    };
    std::thread::Builder::new().name("troupe-parent".into()).spawn(watch).map(drop)
}

/// A node that was started here.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) pid: u32,
    process: Arc<Process>,
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Node {
    /// Starts a process. The receiver gets the first value that `ready` returns for a line, and an
    /// error if the process closes its outputs before.
    pub(crate) fn start(
        binary: &Path,
        args: &[String],
        env: &[(String, String)],
        on_line: Option<OnLine>,
        ready: fn(&str) -> Option<String>,
    ) -> std::io::Result<(Self, oneshot::Receiver<String>)> {
        let mut command = Command::new(binary);
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env_remove("RUST_LOG"); // it is meant for the tests, and the node reads it too
        command.envs(env.iter().map(|(k, v)| (k, v)));
        #[cfg(unix)]
        {
            // Ctrl-C in the terminal ends the tests, and by its stdin the node.
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
        }
        let mut child = command.spawn()?;
        let pid = child.id();
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|s| Box::new(s) as _),
            child.stderr.take().map(|s| Box::new(s) as _),
        ];
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let node = Self { pid, process: Arc::new(Process(Mutex::new(child))), lines };
        #[cfg(unix)]
        if is_of_cargo() {
            stop_with_parent(Arc::downgrade(&node.process))?;
        }
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        for output in outputs.into_iter().flatten() {
            let (lines, on_line, sender) = (node.lines.clone(), on_line.clone(), sender.clone());
            let take = move |line: String| {
                if let Some(value) = ready(&line) {
                    if let Some(sender) = lock(&sender).take() {
                        let _ = sender.send(value); // the start was cancelled
                    }
                }
                if let Some(f) = &on_line {
                    f(&line);
                }
                let mut lines = lock(&lines);
                if lines.len() == KEPT_LINES {
                    lines.pop_front();
                }
                lines.push_back(line);
            };
            let name = "troupe-output".into();
            std::thread::Builder::new().name(name).spawn(move || read_lines(output, take))?;
        }
        Ok((node, receiver))
    }

    /// Returns the last lines that the node wrote.
    pub(crate) fn lines(&self) -> Vec<String> {
        lock(&self.lines).iter().cloned().collect()
    }

    /// Returns the last lines as a text that continues a message.
    pub(crate) fn text(&self) -> String {
        let lines = self.lines();
        if lines.is_empty() {
            return "; it wrote nothing".into();
        }
        lines.iter().fold("; its last lines:".into(), |text, line| format!("{text}\n  {line}"))
    }

    /// Returns how the process ended; waits for it at most for some time.
    pub(crate) fn ended_within(&self, limit: Duration) -> Option<String> {
        self.process.ended_within(limit).map(describe)
    }

    /// Ends the process and waits for its end.
    pub(crate) fn stop(&self) {
        self.process.stop();
    }
}

impl Drop for Node {
    /// Ends a process that nothing has stopped, such as one whose start was cancelled. It does not
    /// wait for the end here.
    fn drop(&mut self) {
        drop(lock(&self.process.0).stdin.take());
        if self.process.ended_within(Duration::ZERO).is_none() {
            let process = self.process.clone();
            std::thread::spawn(move || process.stop());
        }
    }
}

fn describe(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "ended".into(),
    }
}

/// Reads lines until the end of the output.
fn read_lines(output: impl Read, take: impl Fn(String)) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(1..) = output.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
        take(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned());
        line.clear();
    }
}
