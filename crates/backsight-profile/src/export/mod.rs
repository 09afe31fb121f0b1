//! Profiles in the formats of others.
