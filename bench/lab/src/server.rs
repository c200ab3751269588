//! The program under load: the real binary on a config of its own.

use std::path::Path;

use testkit::free_port;
use testkit::program::Program;

use crate::stripe;

/// The one handler of the server.
pub const HANDLER: &str = "bench";

/// Starts a build of the program on this database and waits until it is ready.
pub fn start(build: &Path, url: &str) -> Program {
    let config = config(free_port(), free_port(), url);
    Program::serve_with(build, &config, &[])
}

/// One delivery row per event, as a real inbox has; nobody claims it, because ingest is what is measured.
fn config(public: u16, admin: u16, url: &str) -> String {
    let secret = stripe::SECRET;
    format!(
        "[server]\nlisten = \"127.0.0.1:{public}\"\nadmin_listen = \"127.0.0.1:{admin}\"\n\n[store]\nurl = \"{url}\"\n\n\
         [[source]]\nname = \"stripe\"\nprovider = \"stripe\"\nsecrets = [{{ value = \"{secret}\" }}]\n\n\
         [[handler]]\nname = \"{HANDLER}\"\npull = true\n"
    )
}
