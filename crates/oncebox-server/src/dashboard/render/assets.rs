//! The stylesheet, the script and the mark: part of the program, named by their digest in the ETag.

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use data_encoding::HEXLOWER;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use ring::digest;

use crate::admin::Admin;

#[derive(Clone, Copy, Debug)]
struct Asset {
    path: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 3] = [
    Asset {
        path: "/assets/oncebox.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../../../assets/oncebox.css"),
    },
    Asset {
        path: "/assets/oncebox.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../../assets/oncebox.js"),
    },
    Asset { path: "/assets/oncebox.svg", kind: "image/svg+xml", bytes: include_bytes!("../../../assets/oncebox.svg") },
];

/// They hold nothing of the house, so that they need no login: the login page itself wants them.
pub(crate) fn routes() -> Router<Admin> {
    let mut routes = Router::new();
    for asset in ASSETS {
        let tag = tag(asset.bytes);
        routes = routes.route(asset.path, get(move |headers: HeaderMap| async move { answer(asset, &tag, &headers) }));
    }
    routes
}

/// A browser keeps them and asks each time whether they are still the same: an upgrade is seen at once.
fn answer(asset: Asset, tag: &HeaderValue, headers: &HeaderMap) -> Response {
    let known = headers.get_all(IF_NONE_MATCH).iter().any(|one| one == tag);
    let kind = HeaderValue::from_static(asset.kind);
    let kept = HeaderValue::from_static("public, no-cache");
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, kept), (ETAG, tag.clone())];
    if known { (StatusCode::NOT_MODIFIED, headers).into_response() } else { (headers, asset.bytes).into_response() }
}

fn tag(bytes: &[u8]) -> HeaderValue {
    let digest = digest::digest(&digest::SHA256, bytes);
    let text = format!("\"{}\"", HEXLOWER.encode(digest.as_ref()));
    HeaderValue::try_from(text).expect("hex fits into a header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_sent_again() {
        for asset in ASSETS {
            let tag = tag(asset.bytes);
            let mut headers = HeaderMap::new();
            assert_eq!(answer(asset, &tag, &headers).status(), StatusCode::OK);
            headers.insert(IF_NONE_MATCH, tag.clone());
            assert_eq!(answer(asset, &tag, &headers).status(), StatusCode::NOT_MODIFIED);
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static("\"older\""));
            assert_eq!(answer(asset, &tag, &headers).status(), StatusCode::OK);
        }
    }
}
