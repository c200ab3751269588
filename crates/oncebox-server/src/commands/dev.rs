//! `oncebox dev`: an inbox on this machine without any set-up.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context as _;
use oncebox::gateway::fault::Faults;

use crate::cli::DevArgs;
use crate::config::Config;
use crate::config::store::StoreUrl;
use crate::dev::secrets::DevSecrets;
use crate::dev::{dev_config, secret_names, secrets_option, wants_verify_token};
use crate::observe::spans::Spans;
use crate::observe::telemetry;
use crate::serve::Server;
use crate::serve::signals::Signals;
use crate::usage::wrong_usage;

pub(crate) async fn run(args: &DevArgs, log: &str) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let names = secret_names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let secrets = DevSecrets::load_or_create(&args.database, &names).context("cannot keep development secrets")?;
    let config = || dev_config(args.listen, args.admin_listen, &args.database, &secrets).map_err(wrong_usage);
    let first = config()?;
    let _last_lines = telemetry::init_logs(first.log, log, &Spans::default())?;
    let metrics = telemetry::init_metrics()?;
    let Some(server) = signals.unless_stopped(Server::open(&first, Faults::none())).await else {
        return Ok(ExitCode::SUCCESS);
    };
    let server = server?;
    println!("{}", banner(&first, (server.public_address()?, server.admin_address()?), &secrets));
    server.run(signals, metrics, config).await?;
    Ok(ExitCode::SUCCESS)
}

fn banner(config: &Config, (public, admin): (SocketAddr, SocketAddr), secrets: &DevSecrets) -> String {
    let names: Vec<&str> = config.sources.iter().map(|source| source.spec().name.as_str()).collect();
    let tokens: Vec<&str> = names.iter().copied().filter(|name| wants_verify_token(name)).collect();
    let (send, events) = next_commands(public, admin, &config.store.url);
    let width = send.len().max(events.len());
    format!(
        "\
oncebox dev: an inbox on this machine, ready for webhooks

  webhooks  http://{public}/in/{{source}}   ({sources})
  admin     http://{admin}   (dashboard and API)
  database  {database}
  secrets   {secrets}   (verify tokens too: {tokens})

Now, in a second terminal:

  {send:width$}    # one event, sent fifty times, stored once
  {events:width$}    # what is in the inbox

Ctrl-C stops.",
        sources = some_of(&names),
        tokens = tokens.join(", "),
        database = config.store.url,
        secrets = secrets.path.display(),
    )
}

/// A few sources that many people have, and how to list the rest.
fn some_of(names: &[&str]) -> String {
    let known: Vec<&str> =
        ["stripe", "github", "shopify", "slack"].into_iter().filter(|name| names.contains(name)).collect();
    format!("{} and {} more: oncebox providers", known.join(", "), names.len() - known.len())
}

/// What to type next, with the options that these addresses and this database need and no others.
fn next_commands(public: SocketAddr, admin: SocketAddr, database: &StoreUrl) -> (String, String) {
    let mut send = "oncebox send stripe --copies 50 --concurrency 50".to_owned();
    if public != SocketAddr::from(([127, 0, 0, 1], 8080)) {
        send.push_str(&format!(" --to http://{public}"));
    }
    send.push_str(&secrets_option(database));
    let mut events = "oncebox events".to_owned();
    if admin != SocketAddr::from(([127, 0, 0, 1], 8081)) {
        events.push_str(&format!(" --admin-url http://{admin}"));
    }
    (send, events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listen: &str, admin: &str, database: &str, expected: (&str, &str)) {
        let database = StoreUrl::parse(database).expect("a database");
        let (listen, admin) = (listen.parse().expect("an address"), admin.parse().expect("an address"));
        let (send, events) = next_commands(listen, admin, &database);
        let send = send.strip_prefix("oncebox send stripe --copies 50 --concurrency 50").expect("send");
        let events = events.strip_prefix("oncebox events").expect("events");
        assert_eq!((send, events), expected);
    }

    #[test]
    fn the_next_commands_work_as_typed() {
        let (listen, admin, file) = ("127.0.0.1:8080", "127.0.0.1:8081", "sqlite:oncebox.db");
        check(listen, admin, file, ("", ""));
        check("[::1]:8080", admin, file, (" --to http://[::1]:8080", ""));
        check(listen, "127.0.0.1:9001", file, ("", " --admin-url http://127.0.0.1:9001"));
        check(listen, admin, "sqlite:/tmp/try.db", (" --database sqlite:/tmp/try.db", ""));
        check(listen, admin, "sqlite:it's a try.db", (" --database 'sqlite:it'\\''s a try.db'", ""));
        check(listen, admin, "postgres://u@h/d", (" --database postgres://u@h/d", ""));
        check(listen, admin, "postgres://u:hunter2@h:5/d?x=1", (" --database postgres://u@h:5/d", ""));
        check(listen, admin, "postgres://h/d?password=hunter2@2", (" --database \"$ONCEBOX_DATABASE\"", ""));
    }
}
