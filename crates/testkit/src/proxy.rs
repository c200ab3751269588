//! A TCP proxy between the program and Postgres that can be cut, stalled, made deaf and put right again.
//!
//! A deaf link is how a commit's result gets lost: the statement goes through, the answer never comes back.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{mem, thread};

/// What the link does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Open,
    /// Each piece waits this long.
    Slow(Duration),
    /// Nothing moves, nothing is lost.
    Stalled,
    /// Requests go through, answers are thrown away.
    Deaf,
    /// Connections end, new ones too.
    Cut,
    /// What was connected before some moment hears nothing any more, nor does the other end.
    Forgotten,
    /// The proxy itself has ended.
    Closed,
}

/// A running proxy; ends on drop.
pub struct Proxy {
    addr: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    link: Link,
    accepted: u64,
    /// Connections up to this number are forgotten.
    forgotten: u64,
    pairs: BTreeMap<u64, [TcpStream; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Requests,
    Answers,
}

impl Proxy {
    /// Starts one in front of 127.0.0.1 and this port.
    pub fn start(upstream_port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port can be found");
        let addr = listener.local_addr().expect("a bound socket has an address");
        let state = Mutex::new(State { link: Link::Open, accepted: 0, forgotten: 0, pairs: BTreeMap::new() });
        let shared = Arc::new(Shared { state, changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, upstream_port, &accepting));
        Self { addr, shared }
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.addr.port()
    }

    /// A database URL that goes through this proxy instead of straight to `port`.
    pub fn through(&self, url: &str, port: u16) -> String {
        url.replacen(&format!(":{port}/"), &format!(":{}/", self.port()), 1)
    }

    /// Ends every connection and every new one at once.
    pub fn cut(&self) {
        self.set(Link::Cut);
    }

    /// Lets nothing through; connections stay.
    pub fn stall(&self) {
        self.set(Link::Stalled);
    }

    /// Lets requests through and throws answers away; such connections are of no use afterwards and end at `resume`.
    pub fn deafen(&self) {
        self.set(Link::Deaf);
    }

    /// Holds each piece for a while.
    pub fn slow(&self, delay: Duration) {
        self.set(Link::Slow(delay));
    }

    /// Forgets every open connection without a word to either end, as a firewall does; new ones work.
    pub fn forget(&self) {
        let mut state = self.shared.lock();
        state.forgotten = state.accepted;
    }

    /// Puts the link right again.
    pub fn resume(&self) {
        self.set(Link::Open);
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.lock().pairs.len()
    }

    fn set(&self, link: Link) {
        let mut state = self.shared.lock();
        let was_deaf = state.link == Link::Deaf;
        state.link = link;
        if was_deaf || matches!(link, Link::Cut | Link::Closed) {
            for stream in mem::take(&mut state.pairs).into_values().flatten() {
                // It may have ended by itself.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.set(Link::Closed);
        // Wakes the accepting thread, which then sees the end.
        let _ = TcpStream::connect(self.addr);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with a piece of this connection, once the link is not stalled.
    fn wait_for_link(&self, number: u64) -> Link {
        let mut state = self.lock();
        while state.link == Link::Stalled {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        match state.link {
            Link::Cut | Link::Closed => state.link,
            _ if number <= state.forgotten => Link::Forgotten,
            link => link,
        }
    }

    /// Takes a pair of connected streams in, unless the link is cut.
    fn register(&self, client: &TcpStream, server: &TcpStream) -> Option<u64> {
        let pair = [client.try_clone().ok()?, server.try_clone().ok()?];
        let mut state = self.lock();
        if matches!(state.link, Link::Cut | Link::Closed) {
            return None;
        }
        state.accepted += 1;
        let number = state.accepted;
        state.pairs.insert(number, pair);
        Some(number)
    }
}

fn accept(listener: &TcpListener, upstream_port: u16, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        match shared.lock().link {
            Link::Closed => return,
            Link::Cut => continue,
            Link::Open | Link::Slow(_) | Link::Stalled | Link::Deaf | Link::Forgotten => {}
        }
        let shared = Arc::clone(shared);
        // Connecting may wait, so it must not hold up the next client.
        thread::spawn(move || serve(&client, upstream_port, &shared));
    }
}

fn serve(client: &TcpStream, upstream_port: u16, shared: &Shared) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", upstream_port)) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let Some(number) = shared.register(client, &server) else { return };
    thread::scope(|scope| {
        scope.spawn(|| pump(client, &server, Direction::Requests, number, shared));
        pump(&server, client, Direction::Answers, number, shared);
    });
    shared.lock().pairs.remove(&number);
}

/// Carries bytes one way until either side ends.
fn pump(mut from: &TcpStream, mut to: &TcpStream, direction: Direction, number: u64, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        match shared.wait_for_link(number) {
            Link::Cut | Link::Closed => break,
            Link::Forgotten => continue,
            Link::Deaf if direction == Direction::Answers => continue,
            Link::Slow(delay) => thread::sleep(delay),
            Link::Open | Link::Deaf | Link::Stalled => {}
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    if number <= shared.lock().forgotten {
        // The other end does not hear of this end's end, either.
        return;
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_can_be_stalled_deafened_cut_and_put_right() {
        let proxy = Proxy::start(echo_port());
        let mut first = connect(&proxy);
        assert!(echoes(&mut first));

        proxy.stall();
        assert!(is_silent(&mut first));
        proxy.resume();
        first.set_read_timeout(None).expect("a timeout can be taken away");
        first.read_exact(&mut [0; 4]).expect("the stalled piece comes");
        assert!(echoes(&mut first));
        assert_eq!(proxy.connections(), 1);

        proxy.deafen();
        assert!(is_silent(&mut first));
        proxy.resume();
        assert!(is_silent(&mut first), "a deaf connection is not used again");
        let mut second = connect(&proxy);
        assert!(echoes(&mut second));

        proxy.forget();
        assert!(is_silent(&mut second));
        let mut third = connect(&proxy);
        assert!(echoes(&mut third), "new connections work");

        proxy.cut();
        assert!(is_silent(&mut third));
        assert!(is_silent(&mut connect(&proxy)));
        proxy.resume();
        assert!(echoes(&mut connect(&proxy)));
    }

    #[test]
    fn a_url_goes_through_it() {
        let proxy = Proxy::start(5432);
        let through = proxy.through("postgres://u@127.0.0.1:5432/db", 5432);
        assert_eq!(through, format!("postgres://u@127.0.0.1:{}/db", proxy.port()));
    }

    fn echoes(stream: &mut TcpStream) -> bool {
        ping(stream, Duration::from_secs(20))
    }

    /// Waits only briefly for what must not come.
    fn is_silent(stream: &mut TcpStream) -> bool {
        !ping(stream, Duration::from_millis(200))
    }

    fn ping(stream: &mut TcpStream, patience: Duration) -> bool {
        stream.set_read_timeout(Some(patience)).expect("a timeout can be set");
        stream.write_all(b"ping").is_ok() && stream.read_exact(&mut [0; 4]).is_ok()
    }

    fn connect(proxy: &Proxy) -> TcpStream {
        TcpStream::connect(("127.0.0.1", proxy.port())).expect("the proxy listens")
    }

    fn echo_port() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port can be found");
        let port = listener.local_addr().expect("a bound socket has an address").port();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                thread::spawn(move || std::io::copy(&mut &stream, &mut &stream));
            }
        });
        port
    }
}
