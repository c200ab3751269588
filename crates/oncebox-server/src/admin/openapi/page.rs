//! The document as a page: every route with its parameters, body and answers, then every schema.

use data_encoding::BASE64;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value};

const STYLE: &str = "
:root{color-scheme:light dark;font:16px/1.5 system-ui,sans-serif}body{margin:0 auto;max-width:60rem;padding:1rem}
code,pre{font-family:ui-monospace,monospace;font-size:.9em}pre{overflow-x:auto}summary{cursor:pointer;padding:.4rem 0}
details{border-bottom:1px solid #8884}details>:not(summary){margin-left:1rem}table{border-collapse:collapse}
td,th{text-align:left;vertical-align:top;padding:.15rem 1rem .15rem 0}b{display:inline-block;min-width:4.5rem}
";

/// What stands beside the methods of a path.
const NO_METHODS: [&str; 4] = ["summary", "description", "servers", "parameters"];

/// The page, and the policy under which a browser shows it.
pub(super) fn render(document: &Value) -> (String, String) {
    let hash = BASE64.encode(digest(&SHA256, STYLE.as_bytes()).as_ref());
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let info = &document["info"];
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head><body><h1>{title}</h1>\
         <p>{}</p><p>Version {}. The same for machines: <a href=\"/api/openapi.json\">/api/openapi.json</a></p>",
        text(&info["description"]),
        text(&info["version"]),
        title = text(&info["title"]),
    );
    for (name, description, routes) in groups(document) {
        page.push_str(&format!("<h2>{}</h2><p>{}</p>{routes}", escaped(name), escaped(description)));
    }
    page.push_str("<h2>Schemas</h2>");
    for (name, schema) in object(&document["components"]["schemas"]) {
        page.push_str(&format!(
            "<details id=\"{0}\"><summary><code>{0}</code></summary>{1}</details>",
            escaped(name),
            described(schema)
        ));
    }
    page.push_str("</body></html>\n");
    (page, policy)
}

/// Every route under its tag, in the order of the tags; whatever has none that is described comes last.
fn groups(document: &Value) -> Vec<(&str, &str, String)> {
    let tags = document["tags"].as_array().into_iter().flatten();
    let mut groups: Vec<(&str, &str, String)> = tags
        .map(|tag| {
            (tag["name"].as_str().unwrap_or_default(), tag["description"].as_str().unwrap_or_default(), String::new())
        })
        .collect();
    let others = groups.len();
    groups.push(("others", "", String::new()));
    for (path, item) in object(&document["paths"]) {
        for (method, operation) in object(item).filter(|(method, _)| !NO_METHODS.contains(&method.as_str())) {
            let tag = operation["tags"][0].as_str().unwrap_or_default();
            let place = groups.iter().position(|(name, ..)| *name == tag).unwrap_or(others);
            groups[place].2.push_str(&route(method, path, operation));
        }
    }
    groups.retain(|(.., routes)| !routes.is_empty());
    groups
}

fn route(method: &str, path: &str, operation: &Value) -> String {
    let mut html = format!(
        "<details><summary><b>{}</b> <code>{}</code> {}</summary>",
        escaped(&method.to_uppercase()),
        escaped(path),
        text(&operation["summary"]),
    );
    let parameters: Vec<String> = operation["parameters"].as_array().into_iter().flatten().map(parameter).collect();
    if !parameters.is_empty() {
        html.push_str(&format!("<table>{}</table>", parameters.concat()));
    }
    for (kind, content) in object(&operation["requestBody"]["content"]) {
        html.push_str(&format!("<p>Body: {} as <code>{}</code></p>", named(&content["schema"]), escaped(kind)));
    }
    html.push_str("<table>");
    for (status, answer) in object(&operation["responses"]) {
        let kinds: Vec<String> = object(&answer["content"]).map(|(_, content)| named(&content["schema"])).collect();
        html.push_str(&format!(
            "<tr><th>{}</th><td>{}</td><td>{}</td></tr>",
            escaped(status),
            text(&answer["description"]),
            kinds.join(" ")
        ));
    }
    html.push_str("</table></details>");
    html
}

fn parameter(parameter: &Value) -> String {
    format!(
        "<tr><th><code>{}</code></th><td>{}{}</td><td>{}</td></tr>",
        text(&parameter["name"]),
        text(&parameter["in"]),
        if parameter["required"] == true { ", required" } else { "" },
        text(&parameter["description"]),
    )
}

fn described(schema: &Value) -> String {
    let pretty = serde_json::to_string_pretty(schema).unwrap_or_default();
    format!("<p>{}</p><pre>{}</pre>", text(&schema["description"]), escaped(&pretty))
}

/// A schema by name, with a link; or in short.
fn named(schema: &Value) -> String {
    let reference = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    match (reference, schema["type"].as_str()) {
        (Some(name), _) => format!("<a href=\"#{0}\"><code>{0}</code></a>", escaped(name)),
        (None, Some(kind)) => format!("<code>{}</code>", escaped(kind)),
        (None, None) => String::new(),
    }
}

fn object(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}

fn text(value: &Value) -> String {
    escaped(value.as_str().unwrap_or_default())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whatever_the_document_says_is_text() {
        let evil = "</style><script>alert(1)</script>\"'";
        let document = json!({
            "info": {"title": evil, "version": evil},
            "tags": [{"name": evil, "description": evil}],
            "paths": {evil: {"get": {"tags": [evil], "summary": evil, "parameters": [{"name": evil, "in": "query"}],
                "responses": {"200": {"description": evil}}}}},
            "components": {"schemas": {evil: {"description": evil}}},
        });
        let (page, policy) = render(&document);
        assert!(!page.contains("<script") && page.contains("&lt;script&gt;"), "{page}");
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }

    #[test]
    fn no_route_is_left_out() {
        let document = json!({
            "tags": [{"name": "known"}],
            "paths": {
                "/a": {"summary": "s", "get": {"tags": ["known"]}, "head": {"tags": ["forgotten"]}},
                "/b": {"delete": {}},
            },
        });
        let (page, _) = render(&document);
        for route in ["<b>GET</b> <code>/a</code>", "<b>HEAD</b> <code>/a</code>", "<b>DELETE</b> <code>/b</code>"] {
            assert!(page.contains(route), "{route} in {page}");
        }
        assert!(!page.contains("SUMMARY"), "{page}");
    }
}
