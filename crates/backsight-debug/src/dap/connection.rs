//! A connection: messages in, messages out.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver as Queue, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use super::message::{Request, Talk, capabilities};
use super::server::{Client, Server, Settings};
use super::wire::Receiver;
use crate::replay::Replay;

/// Messages that may wait.
const MOST_WAITING: usize = 64;

/// Requests that somebody has cancelled before they were begun.
const MOST_CANCELLED: usize = 64;

/// What is done with a walk, once there is one.
pub type Walk<'w> = dyn FnMut(&mut Replay<'_>, Settings) + 'w;

/// Opens captures.
pub trait Launcher {
    /// Opens what the arguments of a `launch` name, and walks through it. It may give up, with an error, once the flag is set.
    ///
    /// # Errors
    /// In words for the user, if it cannot be opened.
    fn launch(
        &mut self,
        arguments: &Value,
        stop: &Arc<AtomicBool>,
        walk: &mut Walk<'_>,
    ) -> Result<(), String>;
}

/// Serves an editor until it goes away.
///
/// # Errors
/// If nothing can be written, or what comes in are no messages: the editor is told, too.
pub fn serve(
    launcher: &mut dyn Launcher,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> io::Result<()> {
    serve_streams(launcher, Box::new(input), Box::new(output))
}

fn serve_streams(
    launcher: &mut dyn Launcher,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + '_>,
) -> io::Result<()> {
    let interrupts = Arc::<Interrupts>::default();
    let (sender, queue) = sync_channel(MOST_WAITING);
    let of_reader = interrupts.clone();
    // It ends with the connection; where that stays open, with the program.
    std::thread::spawn(move || {
        let outcome = read(input, &of_reader, |body| sender.send(Ok(body)).is_ok());
        // Nobody waits for the answer any more.
        of_reader.change(|state| state.is_closed = true);
        if let Err(why) = outcome {
            let _ = sender.send(Err(why));
        }
    });
    let mut session =
        Session { interrupts, queue, talk: Talk::new(output), client: Client::default(), broken: None };
    let outcome = session.run(launcher);
    match (outcome, session.broken) {
        // Nobody is left to be told.
        (Err(error), _) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        (Err(error), _) => Err(error),
        (Ok(()), Some(why)) => Err(io::Error::new(ErrorKind::InvalidData, why)),
        (Ok(()), None) => Ok(()),
    }
}

/// Reads messages until there are no more.
fn read(
    mut input: impl Read,
    interrupts: &Interrupts,
    mut put: impl FnMut(Vec<u8>) -> bool,
) -> Result<(), String> {
    let (mut receiver, mut block) = (Receiver::default(), vec![0; 1 << 14]);
    loop {
        let count = match input.read(&mut block) {
            Ok(0) if receiver.is_between() => return Ok(()),
            Ok(0) => return Err("the last message is cut off".to_owned()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => return Ok(()),
        };
        let bodies = receiver.take(&block[..count])?;
        // What comes together is known before any of it is answered.
        let requests = bodies.iter().filter_map(|body| Request::parse(body).ok());
        requests.for_each(|request| interrupts.arrived(&request));
        for body in bodies {
            if !put(body) {
                return Ok(());
            }
        }
    }
}

/// What ends a search that is under way: told by the thread that reads, obeyed by the one that searches.
#[derive(Debug, Default)]
struct Interrupts(Mutex<Wishes>);

#[derive(Debug, Default)]
struct Wishes {
    /// What searches look at.
    flag: Arc<AtomicBool>,
    /// Requests that end what was begun before them, and have not been answered.
    pauses: usize,
    is_closed: bool,
    /// The request that is being answered, and whether it was cancelled.
    current: Option<i64>,
    is_cancelled: bool,
    /// The request that was begun last.
    last: i64,
    /// Requests that have not been begun.
    cancelled: BTreeSet<i64>,
}

impl Interrupts {
    fn change<T>(&self, change: impl FnOnce(&mut Wishes) -> T) -> T {
        let mut wishes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = change(&mut wishes);
        let is_wanted = wishes.pauses > 0 || wishes.is_closed || wishes.is_cancelled;
        wishes.flag.store(is_wanted, Ordering::SeqCst);
        outcome
    }

    /// A request came in.
    fn arrived(&self, request: &Request) {
        self.change(|wishes| match &*request.command {
            "pause" | "disconnect" | "terminate" => wishes.pauses += 1,
            "cancel" => {
                let meant = request.number("requestId");
                if meant.is_some() && meant == wishes.current {
                    wishes.is_cancelled = true;
                } else if wishes.cancelled.len() < MOST_CANCELLED {
                    wishes.cancelled.extend(meant.filter(|meant| *meant > wishes.last));
                }
            }
            _ => {}
        });
    }

    /// A request is answered from now on. True if it was cancelled.
    fn begin(&self, request: &Request) -> bool {
        self.change(|wishes| {
            if let "pause" | "disconnect" | "terminate" = &*request.command {
                wishes.pauses = wishes.pauses.saturating_sub(1);
            }
            (wishes.current, wishes.last) = (Some(request.number), request.number);
            let is_cancelled = wishes.cancelled.remove(&request.number);
            wishes.cancelled.retain(|meant| *meant > request.number);
            is_cancelled
        })
    }

    fn end(&self) {
        self.change(|wishes| (wishes.current, wishes.is_cancelled) = (None, false));
    }

    fn flag(&self) -> Arc<AtomicBool> {
        self.change(|wishes| wishes.flag.clone())
    }

    /// Searches look at another flag from now on.
    fn use_flag(&self, flag: Arc<AtomicBool>) {
        self.change(|wishes| wishes.flag = flag);
    }
}

struct Session<'o> {
    interrupts: Arc<Interrupts>,
    queue: Queue<Result<Vec<u8>, String>>,
    talk: Talk<'o>,
    client: Client,
    /// Why no more messages can be read.
    broken: Option<String>,
}

impl Session<'_> {
    /// The next request that is to be answered; `None` at the end.
    fn next(&mut self) -> io::Result<Option<Request>> {
        loop {
            let Ok(body) = self.queue.recv() else { return Ok(None) };
            let request = match body {
                Ok(body) => Request::parse(&body),
                Err(why) => {
                    self.talk.say("stderr", &format!("{why}: the session is over\n"))?;
                    self.talk.end(None)?;
                    self.broken = Some(why);
                    return Ok(None);
                }
            };
            match request {
                Ok(request) if self.interrupts.begin(&request) => {
                    self.talk.refuse(&request, "cancelled", false)?;
                    self.interrupts.end();
                }
                Ok(request) => return Ok(Some(request)),
                Err(why) => self.talk.say("stderr", &format!("{why}: it was passed over\n"))?,
            }
        }
    }

    /// What comes before a walk.
    fn run(&mut self, launcher: &mut dyn Launcher) -> io::Result<()> {
        while let Some(request) = self.next()? {
            match &*request.command {
                "initialize" => {
                    self.client = Client::of(&request);
                    self.talk.answer(&request, capabilities())?;
                }
                "launch" if self.launch(launcher, &request)? => return Ok(()),
                "launch" => {}
                "disconnect" | "terminate" => return self.talk.end(Some(&request)),
                "cancel" => self.talk.answer(&request, Value::Null)?,
                "attach" => {
                    self.talk.refuse(&request, "a capture is launched, and nothing attached to", true)?
                }
                _ => self.talk.refuse(&request, "no capture has been launched", false)?,
            }
            self.interrupts.end();
        }
        Ok(())
    }

    /// Makes a walk, and serves it. False if there is none.
    fn launch(&mut self, launcher: &mut dyn Launcher, request: &Request) -> io::Result<bool> {
        let flag = self.interrupts.flag();
        let mut outcome = None;
        let launched = launcher.launch(&request.arguments, &flag, &mut |replay, settings| {
            self.interrupts.use_flag(replay.stop_flag());
            outcome = Some(self.walk(replay, settings, request));
        });
        match (outcome, launched) {
            (Some(outcome), _) => outcome.map(|()| true),
            (None, launched) => {
                let why = launched.err().unwrap_or_else(|| "nothing was opened".to_owned());
                self.talk.refuse(request, &why, true)?;
                Ok(false)
            }
        }
    }

    fn walk(&mut self, replay: &mut Replay<'_>, settings: Settings, request: &Request) -> io::Result<()> {
        for warning in replay.capture().warnings() {
            self.talk.say("console", &format!("warning: {warning}\n"))?;
        }
        self.talk.answer(request, Value::Null)?;
        self.talk.event("initialized", json!({}))?;
        self.interrupts.end();
        let mut server = Server::over(replay, settings, self.client);
        while let Some(request) = self.next()? {
            let goes_on = server.request(&request, &mut self.talk)?;
            self.interrupts.end();
            if !goes_on {
                break;
            }
        }
        Ok(())
    }
}
