//! The host's side of a compilation: starts the process, sends it the component, and receives an
//! artifact of bounded size or a reason for its absence.

use super::message::{AnswerHeader, Purpose, Request};
use super::message::{CPU_SECONDS_VARIABLE, MAX_WORDS_BYTES, MEMORY_VARIABLE};
use crate::engine::{Compatibility, Layout};
use rustix::process::Signal;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{ChildStdin, Command};
use tollgate_agent::limit_places::{LimitPlaces, LimitScope};
use tollgate_agent::text::clean;

/// The maximum number of threads of one compilation.
const MAX_THREADS: usize = 4;

/// A compiler process and its limits.
pub(super) struct CompilerJob<'a> {
    pub(super) purpose: Purpose,
    pub(super) compatibility: &'a Compatibility,
    pub(super) layout: Layout,
    pub(super) bytes: &'a [u8],
    /// Processor time of all its threads.
    pub(super) cpu: Duration,
    /// Time from its start to its end.
    pub(super) wall: Duration,
    /// The address space of the process.
    pub(super) memory_bytes: u64,
    pub(super) places: &'static LimitPlaces,
    /// The maximum size of the artifact in bytes.
    pub(super) artifact_bytes: u64,
}

/// The reason why compiling produced no artifact.
pub(super) enum NoArtifact {
    /// The compiler rejected the component with this message.
    Refused(String),
    /// The process could not be started.
    NotStarted(String),
    /// The process reached its processor time limit.
    Cpu,
    /// The process reached its wall-clock limit.
    Wall,
    /// The artifact is too large; it has this many bytes.
    TooLarge(u64),
    /// The process did not answer, or broke the protocol.
    Broken(String),
}

impl CompilerJob<'_> {
    /// Runs the job in a separate process.
    pub(super) async fn run(&self, program: &Path, arguments: &[OsString]) -> Result<Vec<u8>, NoArtifact> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut child = Command::new(program)
            .args(arguments)
            .env_clear()
            .env("RAYON_NUM_THREADS", cores.min(MAX_THREADS).to_string())
            // Each arena of the allocator reserves address space, which is limited.
            .env("MALLOC_ARENA_MAX", "2")
            .env(CPU_SECONDS_VARIABLE, whole_seconds(self.cpu).to_string())
            .env(MEMORY_VARIABLE, self.memory_bytes.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|why| {
                NoArtifact::NotStarted(format!(
                    "the compiler process, {}, cannot be started: {why}",
                    program.display()
                ))
            })?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(NoArtifact::Broken("the compiler process has no pipes".to_owned()));
        };
        let exchange = async {
            let asked = async { Ok(self.ask(stdin).await) };
            let exchanged = tokio::try_join!(asked, receive(stdout, self.artifact_bytes));
            if !matches!(exchanged, Ok((_, CompilerAnswer::Artifact(_) | CompilerAnswer::Words(_)))) {
                // The process may be waiting; its answer is no longer needed.
                let _ = child.start_kill();
            }
            // Keep the pipe open: the process takes the end of its input for the end of the host.
            (exchanged, child.wait().await)
        };
        let talk = async {
            let ((exchanged, status), said) = tokio::join!(exchange, hear(stderr));
            (exchanged.map(|(_, received)| received), said, status)
        };
        match tokio::time::timeout(self.wall, talk).await {
            Ok((Ok(CompilerAnswer::Artifact(artifact)), _, Ok(status))) if status.success() => Ok(artifact),
            Ok((Ok(CompilerAnswer::Words(words)), ..)) => Err(NoArtifact::Refused(words)),
            Ok((Ok(CompilerAnswer::TooLarge(bytes)), ..)) => Err(NoArtifact::TooLarge(bytes)),
            Ok((_, _, Ok(status))) if status.signal() == Some(Signal::XCPU.as_raw()) => Err(NoArtifact::Cpu),
            Ok((_, said, status)) => Err(NoArtifact::Broken(self.broken(status, &said))),
            // Dropping the child kills it.
            Err(_) => Err(NoArtifact::Wall),
        }
    }

    fn broken(&self, status: io::Result<ExitStatus>, said: &str) -> String {
        let ended = match status {
            Ok(status) => status.to_string(),
            Err(why) => why.to_string(),
        };
        let said = if said.is_empty() { "no message" } else { said };
        format!(
            "the compiler process returned no code and ended with {ended}: {said}. It has {} bytes of memory \
             (compile_memory_bytes); if they do not suffice, raise compile_memory_bytes{}",
            self.memory_bytes,
            self.places.of(LimitScope::Host)
        )
    }

    /// Returns the pipe, which must stay open.
    async fn ask(&self, mut stdin: ChildStdin) -> io::Result<ChildStdin> {
        let request = Request {
            purpose: self.purpose,
            compatibility: *self.compatibility,
            layout: self.layout,
            length: self.bytes.len() as u64,
        };
        stdin.write_all(&request.header()).await?;
        stdin.write_all(self.bytes).await?;
        stdin.flush().await?;
        Ok(stdin)
    }
}

enum CompilerAnswer {
    Artifact(Vec<u8>),
    Words(String),
    /// An artifact that is too large and was not read.
    TooLarge(u64),
}

async fn receive(mut from: impl AsyncRead + Unpin, artifact_bytes: u64) -> io::Result<CompilerAnswer> {
    let mut header = [0; AnswerHeader::BYTES];
    from.read_exact(&mut header).await?;
    let foreign = || io::Error::other("another program answers");
    let answer = AnswerHeader::read(&header).ok_or_else(foreign)?;
    if answer.compiled && answer.length > artifact_bytes {
        return Ok(CompilerAnswer::TooLarge(answer.length));
    }
    if !answer.compiled && answer.length > MAX_WORDS_BYTES as u64 {
        return Err(foreign());
    }
    let mut body = Vec::new();
    from.take(answer.length).read_to_end(&mut body).await?;
    match (body.len() as u64 == answer.length, answer.compiled) {
        (false, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (true, true) => Ok(CompilerAnswer::Artifact(body)),
        (true, false) => Ok(CompilerAnswer::Words(clean(&String::from_utf8_lossy(&body), MAX_WORDS_BYTES))),
    }
}

/// Rounds up to whole seconds, the system's unit.
fn whole_seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Returns the beginning of standard error. The rest is read and dropped, so that the process
/// does not block on a full pipe.
async fn hear(from: impl AsyncRead + Unpin) -> String {
    let mut first = from.take(MAX_WORDS_BYTES as u64);
    let mut bytes = Vec::new();
    // A failed read only shortens the explanation.
    let _ = first.read_to_end(&mut bytes).await;
    let _ = tokio::io::copy(&mut first.into_inner(), &mut tokio::io::sink()).await;
    clean(&String::from_utf8_lossy(&bytes), MAX_WORDS_BYTES)
}
