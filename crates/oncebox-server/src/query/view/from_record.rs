//! A view and the record it is made from, field by field.

/// Declares a view with its fields as the API shows them, and says of each where in the store's record it comes from.
macro_rules! view {
    (
        $(#[$about:meta])*
        $view:ident of $record:ident: $from:ty {
            $($(#[$says:meta])* $field:ident: $type:ty = $value:expr,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
        pub(crate) struct $view {
            $($(#[$says])* pub(crate) $field: $type,)*
        }

        impl From<$from> for $view {
            fn from($record: $from) -> Self {
                Self { $($field: $value,)* }
            }
        }
    };
}

pub(crate) use view;
