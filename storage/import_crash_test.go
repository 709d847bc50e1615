package storage

import (
	"maps"
	"testing"
)

// TestFirstStartRecoversFromCrash: a crash during the very first start may leave goleveldb's index
// in any stage of its creation. From each stage the next start creates the store. A folder with a
// CURRENT or a table belongs to another program and is not touched.
func TestFirstStartRecoversFromCrash(t *testing.T) {
	whole := t.TempDir()
	s, err := Open(whole, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{} // of the index
	for name, text := range readDir(t, whole) {
		if name != markName {
			files[name] = text
		}
	}
	var manifest string
	for name := range files {
		if len(name) > 14 && name[:14] == indexName+"/MANIFEST" {
			manifest = name
		}
	}
	if manifest == "" {
		t.Fatalf("no manifest among %v", files)
	}
	for name, left := range map[string]map[string]string{
		"nothing":           {},
		"an empty manifest": {manifest: ""},
		"half a manifest":   {manifest: files[manifest][:len(files[manifest])/2]},
		"no CURRENT yet":    {manifest: files[manifest]},
		"half a CURRENT":    {manifest: files[manifest], indexName + "/CURRENT.0": "MANIFEST-0"},
	} {
		dir := t.TempDir()
		writeDir(t, dir, left)
		s, err := Open(dir, testOptions())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
	for _, more := range []string{"/000007.ldb", "/000007.log"} {
		foreign := map[string]string{manifest: "", indexName + more: "data"}
		dir := t.TempDir()
		writeDir(t, dir, foreign)
		if s, err := Open(dir, testOptions()); err == nil {
			_ = s.Close()
			t.Errorf("%s without a marker is opened", more)
		}
		if got := readDir(t, dir); !maps.Equal(got, foreign) {
			t.Errorf("a foreign index was changed to %v", got)
		}
	}
}
