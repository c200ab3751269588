//! Signatures as the vendors print them, so that two readings of ours cannot agree on a mistake.
