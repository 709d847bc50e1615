package home

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestMountPointIsRecognised: a folder that is the root of a file system is recognised, also with
// unusual characters in its name.
func TestMountPointIsRecognised(t *testing.T) {
	list := []byte("22 1 0:21 / /proc rw - proc proc rw\n36 35 98:0 /mnt1 /srv/near\\040one\\134 rw,noatime master:1 - ext3 /dev/root rw\nodd\n")
	for dir, want := range map[string]bool{"/proc": true, `/srv/near one\`: true, "/srv/near": false, "/": false, "/proc/self": false} {
		if isMount(list, dir) != want {
			t.Errorf("%s: not %v", dir, want)
		}
	}
	if _, err := os.Stat(mounts); err != nil {
		t.Skip("no list of what is mounted")
	}
	if !IsMounted("/proc") || IsMounted(t.TempDir()) {
		t.Error("/proc is not recognised, or a folder is")
	}
	link := filepath.Join(t.TempDir(), "data")
	if err := os.Symlink("/proc", link); err != nil {
		t.Fatal(err)
	}
	if got, want := chainFolder(link), filepath.Join(link, BelowMount); got != want {
		t.Errorf("the chain is in %s, want %s", got, want)
	}
}

// TestChainIsFoundWithoutItsMountPoint: a chain that was begun below a mount point is found by its
// names if the folder is no mount point any more. A chain in the data folder itself comes first.
func TestChainIsFoundWithoutItsMountPoint(t *testing.T) {
	at := func(names ...string) (data string) {
		data = filepath.Join(t.TempDir(), "data")
		for _, name := range names {
			path := filepath.Join(data, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		return data
	}
	for _, x := range []struct {
		names []string
		want  string
	}{
		{nil, ""},
		{[]string{"index/CURRENT"}, ""},
		{[]string{"chain/FORMAT"}, "chain"},
		{[]string{"lost+found/x", "chain.coming/FORMAT"}, "chain"},
		{[]string{"chain.replaced-1/FORMAT"}, "chain"},
		{[]string{"FORMAT", "chain.coming/FORMAT"}, ""},
		{[]string{"chain"}, ""}, // a file
		{[]string{"chains/FORMAT"}, ""},
		{[]string{"chain/index/CURRENT"}, "chain"},
		{[]string{"chain/FORMAT", "chain/chain.coming/FORMAT"}, "chain"},
		{[]string{"chain/lost+found/x", "chain/chain/FORMAT"}, "chain/chain"}, // data/chain was the mount point
		{[]string{"chain/chain.coming/FORMAT", "chain/index/x"}, "chain/chain"},
	} {
		data := at(x.names...)
		want := filepath.Join(data, x.want)
		if got := chainFolder(data); got != want {
			t.Errorf("%q: the chain is in %s, want %s", x.names, got, want)
		}
	}
}
