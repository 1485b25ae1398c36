package host

import (
	"os"
	"path/filepath"

	"github.com/wfhost/wfhost/host/internal/datadir"
	"github.com/wfhost/wfhost/host/internal/engine/wazero"
)

// UserCacheDir returns a folder for Config.CacheDir that the programs of a user share: wfhost/modules in the user's cache
// folder (see os.UserCacheDir). It makes the folder if it is not there. It returns "" if the folder cannot be written, or
// if other users could put code into it: it must belong to the user of this process, and each folder above it to that
// user or root, and nobody else may write to them.
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
