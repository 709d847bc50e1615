package home

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/troupe-chain/troupe/storage"
)

// A synced state and a restored snapshot replace the chain's folder by renaming folders. A mount
// point cannot be renamed. So if the data folder is a mount point, the chain is in the folder
// BelowMount in it, and the folders that are renamed are beside that one, on the same file system.
// A chain that an earlier version wrote to a mount point itself stays there until the first
// replacement: FORMAT in the data folder decides.

// BelowMount is the name of the chain's folder in a data folder that is a mount point. Names of the
// folders that replace it, or that it was replaced by, begin with BelowMount and a period.
const BelowMount = "chain"

// IsBelowMount returns whether a name in a data folder that is a mount point is that of the chain's
// folder, or of one that replaces it.
func IsBelowMount(name string) bool {
	return name == BelowMount || strings.HasPrefix(name, BelowMount+".")
}

// chainFolder returns the folder of the chain for a data folder, which need not exist. The names in
// the data folder decide before the list of mount points does, because the file system may be
// mounted at a different place later.
func chainFolder(data string) string {
	if storage.Exists(data) {
		return data
	}
	below := filepath.Join(data, BelowMount)
	entries, _ := os.ReadDir(data) // opening the folder reports an error
	for _, e := range entries {
		if IsBelowMount(e.Name()) && e.IsDir() {
			return chainFolder(below) // which may be a mount point, too
		}
	}
	if to, err := filepath.EvalSymlinks(data); err == nil && IsMounted(to) {
		return below
	}
	return data
}

// FindChain sets the paths that depend on where the chain is, after the chain's folder was replaced.
func (h *Home) FindChain() {
	p := PathsOf(h.Paths.Dir, h.Config)
	h.Paths.Data, h.Paths.Contracts = p.Data, p.Contracts
}

// mounts is Linux's list of mount points.
const mounts = "/proc/self/mountinfo"

// IsMounted returns whether a folder is a mount point. The path must not contain symbolic links. On
// systems without Linux's list of mount points the result is false.
func IsMounted(dir string) bool {
	list, err := os.ReadFile(mounts)
	if err != nil {
		return false
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return false
	}
	return isMount(list, dir)
}

// isMount returns whether a folder is in the list of mount points. The fifth field of a line is the
// mount point, with special characters as \ooo.
func isMount(list []byte, dir string) bool {
	for line := range bytes.Lines(list) {
		fields := bytes.Fields(line)
		if len(fields) < 5 {
			continue
		}
		at := fields[4]
		var name []byte
		for i := 0; i < len(at); i++ {
			if at[i] == '\\' && i+3 < len(at) {
				if c, err := strconv.ParseUint(string(at[i+1:i+4]), 8, 8); err == nil {
					name, i = append(name, byte(c)), i+3
					continue
				}
			}
			name = append(name, at[i])
		}
		if string(name) == dir {
			return true
		}
	}
	return false
}
