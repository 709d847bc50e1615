package replay

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/troupe-chain/troupe/engine"
	"github.com/troupe-chain/troupe/primitives"
	"github.com/troupe-chain/troupe/storage"
	"github.com/troupe-chain/troupe/storage/trie"
)

// childEnv makes the test binary a child that replays a recording into a folder and prints each
// committed block.
const childEnv = "TROUPE_REPLAY_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		name := filepath.Base(dir)
		rec, err := Open(filepath.Join("testdata", name+".jsonl.gz"))
		var configs map[string][]byte
		if err == nil {
			configs, err = readEpochConfigs(name)
		}
		if err == nil {
			_, err = Run(rec, Options{EpochConfig: configs, Open: inFolder(dir), snapshots: true, BlockEnd: func(h primitives.Height) {
				_, _ = os.Stdout.WriteString(strconv.FormatUint(uint64(h), 10) + "\n")
			}})
		}
		if err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func inFolder(dir string) func(storage.Options) (*storage.Store, error) {
	return func(o storage.Options) (*storage.Store, error) { return storage.Open(dir, o) }
}

// TestKilledReplayHasTheSameRoots: a replay that is killed with SIGKILL at random blocks and
// continues from its folder each time ends with the same roots as one without kills, and loses no
// committed block.
func TestKilledReplayHasTheSameRoots(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, name := range chains("storm", "reshard") {
		rec := openCut(t, name)
		through, err := Run(rec, Options{EpochConfig: epochConfigs(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), name)
		said := primitives.Height(0)
		var kills []int // numbers of blocks after which to kill; a child also prints the blocks that it loads
		for range 3 {
			kills = append(kills, 1+random.IntN(len(rec.Blocks)/4))
		}
		if name == "reshard" { // around both splits, each time a few blocks further
			kills = []int{296 + random.IntN(5), 302, 303 + random.IntN(4), 308 + random.IntN(20), 655 + random.IntN(6), 662 + random.IntN(8)}
		}
		for _, after := range kills {
			said = max(said, runAndKill(t, exe, dir, after))
			s, err := storage.Open(dir, storage.Options{Identity: identity(t, rec, name)})
			if err != nil {
				t.Fatalf("%s: open after the kill: %v", name, err)
			}
			if got := s.Tip().Head.Height; got < said {
				t.Errorf("%s: head is %d after the kill, but %d was committed", name, got, said)
			}
			checkPins(t, rec, name, s)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		report, err := Run(rec, Options{Open: inFolder(dir), EpochConfig: epochConfigs(t, name), snapshots: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range report.Findings {
			t.Errorf("%s: difference %v", name, d)
		}
		if n := min(len(report.Roots), len(through.Roots)); !slices.Equal(report.Roots[len(report.Roots)-n:], through.Roots[len(through.Roots)-n:]) {
			t.Errorf("%s: killed and resumed gives other roots", name)
		}
		s, err := storage.Open(dir, storage.Options{Identity: identity(t, rec, name)})
		if err != nil {
			t.Fatal(err)
		}
		if checkPins(t, rec, name, s) == 0 {
			t.Errorf("%s: no snapshot was left", name)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkPins builds all parts of the pinned states, verifies each, and returns the number of states.
func checkPins(t *testing.T, rec *Recording, name string, s *storage.Store) int {
	t.Helper()
	c, err := Genesis(rec, epochConfigs(t, name))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(engine.Options{Chain: c, Store: s, Snapshots: true})
	if err != nil {
		t.Fatalf("%s: error %v", name, err)
	}
	list, err := s.StateSnapshots()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		for id := (trie.PartID{Total: 3}); id.Index < id.Total; id.Index++ {
			part, err := e.Snapshots().Part(p.At.Hash, p.Index, id)
			if err == nil {
				_, err = trie.OpenPart(part, p.Root, id, 0)
			}
			if err != nil {
				t.Errorf("%s: part %d of shard %d after block %v: %v", name, id.Index, p.Shard, p.At, err)
			}
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	return len(list)
}

func identity(t *testing.T, rec *Recording, name string) storage.Identity {
	t.Helper()
	c, err := Genesis(rec, epochConfigs(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return storeIdentity(rec, c)
}

// runAndKill starts a child, kills it once it has printed a number of blocks, and returns the last
// printed height.
func runAndKill(t *testing.T, exe, dir string, blocks int) (last primitives.Height) {
	t.Helper()
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), childEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for n := 0; n < blocks && lines.Scan(); n++ {
		h, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		last = primitives.Height(h)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	return last
}
