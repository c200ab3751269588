//! Connections to Postgres are encrypted, and the server proves its name where that is asked for.

use oncebox::gateway::store::{Connections, Durability, Store, StoreError};
use testkit::database::postgres_query;
use testkit::postgres::{Cluster, Options};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../testkit/fixtures/authority.pem");
/// Whether our latest session is encrypted.
const ENCRYPTED: &str = "select ssl from pg_stat_ssl join pg_stat_activity using (pid) \
                         where application_name = 'oncebox' order by backend_start desc limit 1";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_proves_its_name_where_asked() {
    let cluster = Cluster::start(Options::default().tls());
    let at = |host: &str, options: &str| {
        let options = options.replace("AUTHORITY", AUTHORITY);
        format!("postgres://postgres@{host}:{}/postgres?{options}", cluster.port())
    };
    for (url, encrypted) in [
        (at("127.0.0.1", "sslmode=disable"), "f"),
        (cluster.url("postgres"), "t"),
        (at("127.0.0.1", "sslmode=require"), "t"),
        (at("127.0.0.1", "sslmode=verify-full&sslrootcert=AUTHORITY"), "t"),
        (at("localhost", "hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=AUTHORITY"), "t"),
        (at("127.0.0.1", "sslrootcert=AUTHORITY"), "t"),
    ] {
        let store = open(&url).await.unwrap_or_else(|error| panic!("{url}: {}", error.chain()));
        store.ping().await.unwrap();
        assert_eq!(postgres_query(&cluster.url("postgres"), ENCRYPTED), [[encrypted]], "{url}");
    }
    for (url, why) in [
        (at("127.0.0.1", "sslmode=verify-full"), "UnknownIssuer"),
        (at("db.internal", "hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=AUTHORITY"), "not valid for name"),
        (at("127.0.0.1", "sslmode=verify-full&sslrootcert=/none.pem"), "sslrootcert: /none.pem cannot be read"),
        (at("127.0.0.1", "sslrootcert=/dev/null"), "sslrootcert: /dev/null holds no certificate"),
    ] {
        let refused = open(&url).await.expect_err(&url).chain();
        assert!(refused.contains(why), "{url}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_encrypt_is_refused_where_asked() {
    let cluster = Cluster::start(Options::default());
    assert!(open(&format!("{}?sslmode=require", cluster.url("postgres"))).await.is_err());
    open(&format!("{}?sslmode=prefer", cluster.url("postgres"))).await.unwrap();
}

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::connect_postgres(url, Connections { ingest: 2, work: 2 }, Durability::Restart).await
}
