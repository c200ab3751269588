//! Consumers outside: the library's verbs and the functions in the database are one contract, driven through one table
//! of tests, and may work on one handler side by side.

mod contract;
mod functions;
mod manual;
mod outbox;
mod puller;
mod roles;
mod side_by_side;

/// Writes each test once and runs it with the verbs on both databases and with the functions on Postgres.
macro_rules! pulled {
    ($(async fn $name:ident($world:ident: World, $puller:ident: Puller) $body:block)+) => {$(
        async fn $name($world: World, $puller: Puller) $body

        mod $name {
            use testkit::Backend;

            use crate::pull::puller::Puller;
            use crate::store_contract::deliveries::processing;

            fn run(backend: Backend, puller: Puller) {
                testkit::database::run(backend, async |db| super::$name(processing(db).await, puller).await);
            }

            #[test]
            fn verbs_on_sqlite() {
                run(Backend::Sqlite, Puller::Verbs);
            }

            #[test]
            fn verbs_on_postgres() {
                run(Backend::Postgres, Puller::Verbs);
            }

            #[test]
            fn functions() {
                run(Backend::Postgres, Puller::Functions);
            }
        }
    )+};
}
use pulled;
