//! The directory of a store: made, locked, repaired and kept private before sled sees it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pilothouse_messages::error::StoreError;

use super::marks::MARK_FILE;

/// sled's data file.
pub(super) const DATA_FILE: &str = "db";
/// What the holder of an open store locks, for as long as it has the store. sled locks its data file, but not on
/// every system, and not before it has begun to read.
const LOCK_FILE: &str = "lock";
/// How long a lock that is just being given up is waited for.
const LOCK_WAIT: Duration = Duration::from_secs(1);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Until when a lock is waited for.
#[derive(Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    pub(super) fn soon() -> Self {
        Self(Instant::now() + LOCK_WAIT)
    }

    /// Waits a little; past the deadline the directory counts as locked.
    pub(super) fn pause(self, path: &Path) -> Result<(), StoreError> {
        if Instant::now() >= self.0 {
            return Err(StoreError::Locked { path: path.to_owned() });
        }
        std::thread::sleep(LOCK_PAUSE);
        Ok(())
    }
}

/// The directory is ours until this is dropped, or the process ends.
pub(super) struct Hold {
    /// The lock goes with it.
    _lock: File,
}

/// Makes the directory if need be, takes it, and removes torn snapshots.
pub(super) fn prepare(path: &Path, deadline: Deadline) -> Result<Hold, StoreError> {
    let failed = |error: io::Error| unusable(path, &error);
    match fs::metadata(path) {
        Ok(found) if !found.is_dir() => return Err(unusable(path, &io::ErrorKind::NotADirectory.into())),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path).map_err(failed)?,
        Err(error) => return Err(failed(error)),
    }
    if fs::read_dir(path).map_err(failed)?.next().is_none() {
        // Somebody else made it, for us: from now on it holds what only we may read.
        set_mode(path, 0o700);
    }
    let lock_file = private_file().open(path.join(LOCK_FILE)).map_err(failed)?;
    lock(&lock_file, path, deadline)?;
    // sled would make it for everybody to read.
    private_file().open(path.join(DATA_FILE)).map_err(failed)?;
    remove_torn_snapshots(path).map_err(failed)?;
    restrict(path);
    Ok(Hold { _lock: lock_file })
}

/// Makes the directory and what is missing above it, and brings their names to the disk.
fn create(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    private_directory().create(path)?;
    missing.iter().filter_map(|made| made.parent()).try_for_each(sync_directory)
}

/// Waits for the lock until the deadline.
fn lock(file: &File, path: &Path, deadline: Deadline) -> Result<(), StoreError> {
    loop {
        match fs2::FileExt::try_lock_exclusive(file) {
            Ok(()) => return Ok(()),
            Err(error) if error.raw_os_error() == fs2::lock_contended_error().raw_os_error() => {
                deadline.pause(path)?;
            }
            Err(error) => {
                let reason = format!("it cannot be locked ({error}): choose one on a local disk");
                return Err(StoreError::Directory { path: path.to_owned(), reason });
            }
        }
    }
}

fn remove_torn_snapshots(path: &Path) -> io::Result<()> {
    for (name, path) in entries(path)? {
        if name.starts_with("snap.") && name.ends_with(".generating") {
            tracing::warn!(path = %path.display(), "removed a half-written snapshot of a process that was killed");
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Takes sled's files from everybody else; it makes them with the process's own mask.
pub(super) fn restrict(path: &Path) {
    // A directory that cannot be read was refused before this.
    for (name, path) in entries(path).unwrap_or_default() {
        match name.as_str() {
            "blobs" => set_mode(&path, 0o700),
            DATA_FILE | LOCK_FILE | MARK_FILE | "conf" => set_mode(&path, 0o600),
            snapshot if snapshot.starts_with("snap.") => set_mode(&path, 0o600),
            _ => {}
        }
    }
}

fn entries(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = fs::read_dir(path)?;
    entries
        .map(|entry| entry.map(|entry| (entry.file_name().to_string_lossy().into(), entry.path())))
        .collect()
}

/// Opens a file that only its owner may read; makes it if it does not exist.
pub(super) fn open_private(path: &Path) -> io::Result<File> {
    private_file().open(path)
}

/// Brings the names of new files to the disk.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    sync_directory(path).map_err(|error| unusable(path, &error))
}

/// Why the directory cannot be used, with what to do about it.
pub(super) fn unusable(path: &Path, error: &io::Error) -> StoreError {
    let reason = match error.kind() {
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "it, or a part of its path, is a file: choose a directory".into()
        }
        io::ErrorKind::PermissionDenied => {
            "permission denied: let this process's user read and write it, or choose another directory".into()
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: choose a directory on another one".into()
        }
        io::ErrorKind::StorageFull => "the disk is full: make room".into(),
        _ => format!("{error}: check the path, or choose another directory"),
    };
    StoreError::Directory { path: path.to_owned(), reason }
}

#[cfg(unix)]
mod modes {
    use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
    use std::path::Path;

    pub(super) fn set_mode(path: &Path, mode: u32) {
        let same = fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o777 == mode);
        if same {
            return;
        }
        // Not fatal: a volume of another owner, or one without modes, still keeps data.
        if let Err(error) = fs::set_permissions(path, Permissions::from_mode(mode)) {
            tracing::warn!(path = %path.display(), %error, "cannot keep the store from other users");
        }
    }

    pub(super) fn private_directory() -> DirBuilder {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
    }

    pub(super) fn private_file() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        options
    }

    pub(super) fn sync_directory(path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

#[cfg(not(unix))]
mod modes {
    use std::fs::{DirBuilder, OpenOptions};
    use std::io;
    use std::path::Path;

    /// Access follows the directory's own list here.
    pub(super) fn set_mode(_: &Path, _: u32) {}

    pub(super) fn private_directory() -> DirBuilder {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        builder
    }

    pub(super) fn private_file() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        options
    }

    /// A directory has no sync of its own here.
    pub(super) fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }
}

use modes::{private_directory, private_file, set_mode, sync_directory};
