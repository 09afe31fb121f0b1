//! Any bytes as an index in a file, and any text as a moment. What is read is written as it was read.

#![no_main]

use backsight::moments::{Identity, Index, Moment};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let identity = Identity::default();
    // A good sum, so that more than the sum is looked at.
    let header = Index::default().to_bytes(identity)[..24].to_vec();
    let mut sealed = [&header[..], data].concat();
    let mut sum = flate2::Crc::new();
    sum.update(&sealed);
    sealed.extend(sum.sum().to_le_bytes());
    for bytes in [data, sealed.as_slice()] {
        if let Ok(index) = Index::from_bytes(bytes, identity) {
            let written = index.to_bytes(identity);
            assert_eq!(Index::from_bytes(&written, identity).expect("an index"), index);
        }
    }
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(moment) = text.parse::<Moment>()
    {
        assert_eq!(moment.to_string().parse(), Ok(moment));
    }
});
