//! Secrets that a handshake brings: taken once, and only after somebody armed the source.

use oncebox::store::{ArrivedSecret, Kept};
use testkit::TestDatabase;

use crate::world::{NOW, World};

testkit::contract! {
    async fn an_armed_source_takes_one_secret(db: TestDatabase) {
        let world = World::new(db).await;
        let keep = async |source: &str, sealed: &[u8]| world.store.keep_secret(source, sealed.to_vec(), NOW + 1).await.unwrap();
        assert_eq!(keep("asana", b"early").await, Kept::NotArmed);
        world.store.arm_secret("asana", NOW).await.unwrap();
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", true, None, NOW)]);
        assert_eq!(keep("notion", b"other").await, Kept::NotArmed);
        assert_eq!(keep("asana", b"first").await, Kept::Kept);
        assert_eq!(keep("asana", b"second").await, Kept::NotArmed);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", false, Some(b"first"), NOW + 1)]);

        world.store.arm_secret("asana", NOW + 2).await.unwrap();
        let armed_again = row("asana", true, Some(b"first"), NOW + 2);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [armed_again], "the old one stays until then");
        assert_eq!(keep("asana", b"third").await, Kept::Kept);
        assert_eq!(world.store.arrived_secrets().await.unwrap(), [row("asana", false, Some(b"third"), NOW + 1)]);
    }

    async fn of_many_at_once_one_wins(db: TestDatabase) {
        let world = World::new(db).await;
        world.store.arm_secret("asana", NOW).await.unwrap();
        let tries: Vec<_> = (0..8_u8)
            .map(|number| {
                let store = world.store.clone();
                tokio::spawn(async move { store.keep_secret("asana", vec![number], NOW).await.unwrap() })
            })
            .collect();
        let mut kept = 0;
        for one in tries {
            kept += usize::from(one.await.unwrap() == Kept::Kept);
        }
        assert_eq!(kept, 1);
    }
}

fn row(source: &str, armed: bool, sealed: Option<&[u8]>, changed_at: i64) -> ArrivedSecret {
    ArrivedSecret { source: source.to_owned(), armed, sealed: sealed.map(<[u8]>::to_vec), changed_at }
}
