//! A binary that is older than the crate. The file that is written here must not be open in a process that another test
//! starts at that moment, so this is the only test of its program.
#![cfg(unix)]
use std::os::unix::fs::PermissionsExt;

use troupe_sandbox::{Error, Sandbox, StartOptions};

#[tokio::test]
async fn binary_that_is_older_than_the_crate() {
    let dir = std::env::temp_dir().join(format!("troupe-older-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("troupe");
    for line in ["unknown flag: --exit-with-stdin", "unknown command \"dev\" for \"troupe\""] {
        std::fs::write(&path, format!("#!/bin/sh\necho 'troupe: {line}' >&2\nexit 2\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let err = Sandbox::start_with(StartOptions::new().binary(&path)).await.unwrap_err();
        let want = "ended with exit code 2: it is older than this crate";
        assert!(
            matches!(&err, Error::StartFailed { message, .. } if message.contains(want)),
            "{err}"
        );
    }
    std::fs::remove_dir_all(&dir).unwrap();
}
