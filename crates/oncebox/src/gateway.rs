//! The inside, for the program `oncebox` and for tests. It may change in any release: nothing here is promised.

/// Opens modules that are private otherwise, each under its own name.
macro_rules! open {
    ($($(#[$when:meta])? $module:ident;)*) => {
        $(
            $(#[$when])?
            /// See the module of this name.
            pub mod $module {
                pub use crate::$module::*;
            }
        )*
    };
}

open! {
    clock;
    delivery;
    event;
    fault;
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    ingest;
    lane;
    limits;
    message;
    #[cfg(feature = "http")]
    outgoing;
    #[cfg(all(feature = "http", any(feature = "sqlite", feature = "postgres")))]
    relay;
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    retention;
    sealed;
    shutdown;
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    store;
    trace;
    vendor;
    wake;
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    worker;
}
