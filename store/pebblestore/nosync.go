package pebblestore

import "github.com/cockroachdb/pebble/v2/vfs"

// noSync is a file system that makes nothing durable, for Options.NoSync.
type noSync struct{ vfs.FS }

// noSyncFile leaves it to the operating system when the file is written.
type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error                { return nil }
func (noSyncFile) SyncData() error            { return nil }
func (noSyncFile) SyncTo(int64) (bool, error) { return false, nil }

func wrapNoSync(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

func (n noSync) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return wrapNoSync(n.FS.Create(name, category))
}

func (n noSync) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return wrapNoSync(n.FS.OpenReadWrite(name, category, opts...))
}

func (n noSync) OpenDir(name string) (vfs.File, error) { return wrapNoSync(n.FS.OpenDir(name)) }

func (n noSync) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return wrapNoSync(n.FS.ReuseForWrite(oldname, newname, category))
}

// Unwrap returns the wrapped file system.
func (n noSync) Unwrap() vfs.FS { return n.FS }
