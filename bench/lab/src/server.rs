//! The program under load: the real binary on a config of its own.

use std::path::Path;

use testkit::free_port;
use testkit::program::Program;

use crate::stripe;

/// The first handler of the server.
pub const HANDLER: &str = "bench";
/// Where it takes Stripe's events.
pub const PATH: &str = "/in/stripe";

/// Starts a build of the program with so many handlers on this database and waits until it is ready.
pub fn start(build: &Path, url: &str, handlers: usize) -> Program {
    let config = config(free_port(), free_port(), url, handlers);
    Program::serve_with(build, &config, &[])
}

/// A delivery row per event and handler, as a real inbox has; nobody claims it, because ingest is what is measured.
fn config(public: u16, admin: u16, url: &str, handlers: usize) -> String {
    let secret = stripe::SECRET;
    let names = std::iter::once(HANDLER.to_owned()).chain((2..).map(|nth| format!("{HANDLER}_{nth}")));
    let handlers: String =
        names.take(handlers).map(|name| format!("\n[[handler]]\nname = \"{name}\"\npull = true\n")).collect();
    format!(
        "[server]\nlisten = \"127.0.0.1:{public}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n\n[store]\nurl = \"{url}\"\n\n\
         [[source]]\nname = \"stripe\"\nprovider = \"stripe\"\nsecrets = [{{ value = \"{secret}\" }}]\n{handlers}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_have_names_of_their_own() {
        let config = config(1, 2, "sqlite:x.db", 3);
        let names: Vec<&str> = config.lines().filter(|line| line.starts_with("name = \"bench")).collect();
        assert_eq!(names, ["name = \"bench\"", "name = \"bench_2\"", "name = \"bench_3\""]);
    }
}
