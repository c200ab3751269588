//! Secrets that a handshake brings: taken once, and only after somebody armed the source.

use oncebox::gateway::store::{ARMED_FOR_MS, ArrivedSecret, Asked, Kept};
use testkit::TestDatabase;

use crate::world::{NOW, World};

testkit::contract! {
    async fn an_armed_source_takes_one_secret(db: TestDatabase) {
        let world = World::new(db).await;
        let keep = async |source: &str, sealed: &[u8]| {
            world.store.keep_secret(&asked(NOW + 1), source, sealed.to_vec()).await.unwrap()
        };
        assert_eq!(keep("asana", b"early").await, Kept::NotArmed);
        world.store.arm_secret_as(&asked(NOW), "asana").await.unwrap();
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", true, None, NOW)]);
        assert_eq!(keep("notion", b"other").await, Kept::NotArmed);
        assert_eq!(keep("asana", b"first").await, Kept::Kept);
        assert_eq!(keep("asana", b"second").await, Kept::NotArmed);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", false, Some(b"first"), NOW + 1)]);

        world.store.arm_secret_as(&asked(NOW + 2), "asana").await.unwrap();
        let armed_again = row("asana", true, Some(b"first"), NOW + 2);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [armed_again], "the old one stays until then");
        assert_eq!(keep("asana", b"third").await, Kept::Kept);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", false, Some(b"third"), NOW + 1)]);
    }

    async fn arming_ends_by_itself_and_by_a_person(db: TestDatabase) {
        let world = World::new(db).await;
        let keep = async |at: i64| world.store.keep_secret(&asked(at), "asana", b"late".to_vec()).await.unwrap();
        world.store.arm_secret_as(&asked(NOW), "asana").await.unwrap();
        assert_eq!(keep(NOW + ARMED_FOR_MS).await, Kept::NotArmed, "ten minutes are over");
        let known = world.store.arrived_secrets().await.unwrap();
        assert!(known[0].is_armed_at(NOW + ARMED_FOR_MS - 1) && !known[0].is_armed_at(NOW + ARMED_FOR_MS));
        world.store.arm_secret_as(&asked(NOW + 1), "asana").await.unwrap();
        assert!(world.store.disarm_secret_as(&asked(NOW + 2), "asana").await.unwrap());
        assert!(!world.store.disarm_secret_as(&asked(NOW + 3), "asana").await.unwrap(), "nobody waits");
        assert_eq!(keep(NOW + 3).await, Kept::NotArmed);
        world.store.arm_secret_as(&asked(NOW + 4), "asana").await.unwrap();
        assert_eq!(keep(NOW + 3 + ARMED_FOR_MS).await, Kept::Kept);
        let log = world.store.actions_after(None, 10).await.unwrap();
        let kinds: Vec<(&str, &str)> = log.iter().map(|one| (one.kind.as_str(), one.who.as_str())).collect();
        assert_eq!(kinds, ["secret", "arm", "disarm", "arm", "arm"].map(|kind| (kind, "somebody")));
    }

    async fn of_many_at_once_one_wins(db: TestDatabase) {
        let world = World::new(db).await;
        world.store.arm_secret_as(&asked(NOW), "asana").await.unwrap();
        let tries: Vec<_> = (0..8_u8)
            .map(|number| {
                let store = world.store.clone();
                tokio::spawn(async move { store.keep_secret(&asked(NOW), "asana", vec![number]).await.unwrap() })
            })
            .collect();
        let mut kept = 0;
        for one in tries {
            kept += usize::from(one.await.unwrap() == Kept::Kept);
        }
        assert_eq!(kept, 1);
    }
}

fn asked(at: i64) -> Asked {
    Asked {
        id: format!("asked-{at}-{}", oncebox::gateway::event::KeyMaker::default().make::<()>(at)),
        who: "somebody".to_owned(),
        at,
    }
}

fn row(source: &str, armed: bool, sealed: Option<&[u8]>, changed_at: i64) -> ArrivedSecret {
    ArrivedSecret { source: source.to_owned(), armed, sealed: sealed.map(<[u8]>::to_vec), changed_at }
}
