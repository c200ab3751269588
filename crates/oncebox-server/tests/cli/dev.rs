//! `oncebox dev`: what vendors check before they send can be tried, too.

use testkit::http;

use crate::inbox::Inbox;
use crate::{oncebox, oncebox_json};

#[test]
fn the_banner_names_a_few_sources_and_how_to_list_all() {
    let inbox = Inbox::dev();
    let banner = inbox.banner();
    let webhooks = banner.lines().find(|line| line.contains("/in/{source}")).expect("where webhooks go");
    assert!(webhooks.contains("stripe") && webhooks.contains("more: oncebox providers"), "{webhooks}");
    assert!(webhooks.len() <= 120, "{webhooks}");
}

#[test]
fn a_verify_token_is_made_shown_and_right() {
    let inbox = Inbox::dev();
    let shown = oncebox(inbox.folder(), &["providers", "meta-whatsapp"], 0).stdout;
    let token = shown.trim_end().rsplit(' ').next().expect("a word").to_owned();
    assert!(shown.contains("For `oncebox dev` in this folder the verify token is") && token.len() == 40, "{shown}");
    let url = inbox.url();
    let addr = url.trim_start_matches("http://");
    for (token, status) in [(token.as_str(), 200), ("development", 401)] {
        let target = format!("/in/meta-whatsapp?hub.mode=subscribe&hub.verify_token={token}&hub.challenge=42");
        assert_eq!(http::get(addr, &target, &[]).status, status, "{token}");
    }
    assert_eq!(inbox.send(&["meta-whatsapp"])["accepted"], 1);
    let elsewhere = tempfile::tempdir().expect("a folder");
    assert!(!oncebox(elsewhere.path(), &["providers", "meta-whatsapp"], 0).stdout.contains("in this folder"));
}

#[test]
fn asanas_secret_can_be_armed_for() {
    let inbox = Inbox::dev();
    let (url, admin) = (inbox.url(), inbox.admin_url());
    let addr = url.trim_start_matches("http://");
    let handshake = || http::post(addr, "/in/asana", &[("x-hook-secret", "brought-by-asana")], b"");
    assert_eq!(handshake().status, 401, "nobody armed it");
    oncebox(inbox.folder(), &["arm", "asana", "--admin-url", &admin], 0);
    let answer = handshake();
    assert_eq!((answer.status, answer.header("x-hook-secret")), (200, Some("brought-by-asana")));
    let args = ["send", "asana", "--secret", "brought-by-asana", "--to", &url, "--json"];
    assert_eq!(oncebox_json(inbox.folder(), &args, 0)["accepted"], 1);
    assert_eq!(inbox.send(&["asana"])["accepted"], 1, "the development secret stays valid");
}
