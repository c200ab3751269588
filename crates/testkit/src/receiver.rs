//! The application that an `http` handler or the outbox calls: writes down every call, and answers as the test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A call that came in.
#[derive(Clone, Debug)]
pub struct Call {
    /// The path with its query.
    pub path: String,
    /// Names in lower case, in their order.
    pub headers: Vec<(String, String)>,
    /// The bytes.
    pub body: Vec<u8>,
    /// When it was read.
    pub at: Instant,
}

impl Call {
    /// The first header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// How to answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A status.
    Status(u16),
    /// A status with one header more.
    With(u16, &'static str, String),
    /// A status with a body.
    Body(u16, String),
    /// Silence, until the caller goes away.
    Hang,
    /// The connection is closed without an answer.
    Reset,
    /// A head of the test's own, then so many bytes again and again with this pause, until the caller goes away.
    Stream(String, usize, Duration),
}

type Behaviour = Box<dyn Fn(&Call) -> Reply + Send + Sync>;

/// A listening application. It lives as long as the test process.
#[derive(Clone)]
pub struct Receiver {
    address: String,
    calls: Arc<Mutex<Vec<Call>>>,
    forgets: Arc<AtomicBool>,
    behaviour: Arc<Mutex<Arc<Behaviour>>>,
}

impl Receiver {
    /// One that answers 200.
    pub fn start() -> Self {
        Self::start_with(|_| Reply::Status(200))
    }

    /// One that answers as told.
    pub fn start_with(behaviour: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port can be found");
        let address = listener.local_addr().expect("a bound socket has an address").to_string();
        let behaviour: Behaviour = Box::new(behaviour);
        let receiver = Self {
            address,
            calls: Arc::default(),
            forgets: Arc::default(),
            behaviour: Arc::new(Mutex::new(Arc::new(behaviour))),
        };
        let answering = receiver.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answering = answering.clone();
                thread::spawn(move || answering.serve(stream));
            }
        });
        receiver
    }

    /// One that answers as told and keeps no call: for very many, or very large ones.
    pub fn forgetful(behaviour: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        let receiver = Self::start_with(behaviour);
        receiver.forgets.store(true, Ordering::Relaxed);
        receiver
    }

    /// `http://`, its address, and a path.
    pub fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    /// All calls so far, in the order in which they were read.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Answers otherwise from now on.
    pub fn behave(&self, behaviour: impl Fn(&Call) -> Reply + Send + Sync + 'static) {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Box::new(behaviour));
    }

    fn serve(&self, stream: TcpStream) {
        let Ok(reading) = stream.try_clone() else { return };
        let (mut reader, mut stream) = (BufReader::new(reading), stream);
        while let Some(call) = read_call(&mut reader) {
            if !self.forgets.load(Ordering::Relaxed) {
                self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
            }
            let behaviour = self.behaviour.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let answer = match behaviour(&call) {
                Reply::Status(status) => format!("HTTP/1.1 {status} x\r\ncontent-length: 0\r\n\r\n"),
                Reply::With(status, name, value) => {
                    format!("HTTP/1.1 {status} x\r\n{name}: {value}\r\ncontent-length: 0\r\n\r\n")
                }
                Reply::Body(status, body) => {
                    format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
                }
                Reply::Hang => {
                    // The caller gives up first; a bound keeps the thread from outliving its use.
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(60)));
                    let _ = reader.read(&mut [0; 1]);
                    return;
                }
                Reply::Reset => return,
                Reply::Stream(head, chunk, pause) => return pour(&mut stream, &head, chunk, pause),
            };
            if stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}

/// Writes until nobody takes it any more, a minute at most.
fn pour(stream: &mut TcpStream, head: &str, chunk: usize, pause: Duration) {
    let (bytes, since) = (vec![b'x'; chunk], Instant::now());
    let mut written = stream.write_all(head.as_bytes());
    while written.is_ok() && since.elapsed() < Duration::from_secs(60) {
        written = stream.write_all(&bytes);
        thread::sleep(pause);
    }
}

fn read_call(reader: &mut BufReader<TcpStream>) -> Option<Call> {
    let path = read_line(reader)?.split(' ').nth(1)?.to_owned();
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Call { path, headers, body, at: Instant::now() })
}

fn read_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    match reader.read_line(&mut line) {
        Ok(1..) => Some(line.trim_end().to_owned()),
        _ => None,
    }
}
