//! Captures on disk: snapshots, trace packages, bare files, retired-instruction streams.
