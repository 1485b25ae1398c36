package host

import (
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
)

// UserCacheDir returns a folder for Config.CacheDir that all programs of a user share: wfhost/modules in the user's cache
// folder (see os.UserCacheDir). It creates the folder if necessary. It returns "" if the folder cannot be written, or if
// another user could put code into it. That is so unless the folder belongs to the user of this process, every folder
// above it belongs to that user or root, and only their owners can write to these folders.
func UserCacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	dir := filepath.Join(base, "wfhost", "modules")
	if datadir.CheckAbove(dir) != nil || wazero.CheckCache(dir) != nil || datadir.CheckAbove(dir) != nil {
		return ""
	}
	return dir
}
