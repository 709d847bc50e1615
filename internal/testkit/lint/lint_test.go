// Package lint checks the repository's rules: allowed imports, purity of pure packages, package
// comments, file names, prose.
//
//	in      the module's packages, as `go list` and go/parser see them
//	out     a test failure for each breach, naming the file and the rule
//	source  docs/design/overview.md
package lint

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/troupe-chain/troupe/"

// allowed: top folder -> the other top folders of ours that it may import; "*" is all.
var allowed = map[string]string{
	"primitives": "",
	"chain":      "primitives",
	"runtime":    "primitives",
	"storage":    "primitives chain/blockdoc",
	"messages":   "primitives",
	"engine":     "primitives chain runtime storage",
	"consensus":  "primitives chain runtime storage engine",
	"net":        "primitives messages",
	"rpc":        "primitives messages runtime/parameters chain/txstatus stream",
	"stream":     "primitives messages",
	"actors":     "primitives messages chain runtime storage engine consensus net stream",
	"internal":   "primitives messages chain runtime storage engine consensus net stream actors rpc",
	"sandbox":    "primitives internal",
	"indexer":    "primitives stream internal",
	"bench":      "*",
	"cmd":        "*",
}

// homes: an outside module -> the folders that may import it.
var homes = map[string]string{
	"github.com/asynkron/protoactor-go": "actors cmd",
	"github.com/syndtr/goleveldb":       "storage",
	"github.com/libp2p":                 "net",
	"github.com/multiformats":           "net",
	"github.com/quic-go":                "net",
	"github.com/nats-io":                "net",
	"github.com/valyala/fasthttp":       "rpc bench cmd internal",
	"github.com/fasthttp/websocket":     "rpc bench cmd internal indexer",
	"github.com/minio/minio-go":         "indexer/lake",

	"github.com/HdrHistogram":           "bench",
	"github.com/bytecodealliance":       "runtime/vm",
	"github.com/consensys/gnark-crypto": "runtime/vm",
	"github.com/sirupsen/logrus":        "actors rpc cmd net bench internal/daemon sandbox indexer/node",
}

// kitUsers: a package of the product -> the packages of the test kit that it may import. A node runs
// none of them: they are behind commands for developers, and are 0.3 MB of a binary of 72 MB.
var kitUsers = map[string]string{
	"cmd/troupe": "internal/testkit/sim internal/testkit/replay", // troupe sim, troupe verify
	"bench":      "internal/testkit/workload internal/testkit/contracts",
	"bench/load": "internal/testkit/contracts",
}

// pure folders take no time, disk, randomness, goroutines or floats.
var pure = []string{"chain", "consensus", "runtime", "storage/trie", "primitives"}

// exceptions: folder -> what of the pure rules it may break, and why.
var exceptions = map[string]string{
	"runtime/congestion":  "float",      // f64 with every product wrapped
	"runtime/vm":          "time os go", // wasmtime's shell
	"runtime/vm/cache":    "time os",    // artifacts on disk
	"runtime/vm/compiler": "time os go", // child processes
	"primitives":          "float",      // Balance.Float64, for congestion
}

type pkg struct {
	ImportPath, Dir, Name              string
	Imports                            []string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Name,Imports,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "GOWORK=off") // not the modules of examples/go.work
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p pkg
		if err := d.Decode(&p); err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	return pkgs
}

func folder(path string) string { return strings.TrimPrefix(path+"/", module) }

func within(path, list string) bool {
	for _, f := range strings.Fields(list) {
		if f == "*" || strings.HasPrefix(path+"/", f+"/") {
			return true
		}
	}
	return false
}

func TestImportsFollowLayers(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimSuffix(folder(p.ImportPath), "/")
		top, _, _ := strings.Cut(from, "/")
		may, known := allowed[top]
		if !known {
			t.Errorf("%s: top-level folder %q is not in the table of docs/design/overview.md", from, top)
			continue
		}
		for _, imp := range p.Imports {
			if to, ours := strings.CutPrefix(imp, module); ours {
				if toTop, _, _ := strings.Cut(to, "/"); toTop != top && !within(to, may) {
					t.Errorf("%s imports %s: may only import %q", from, to, may)
				}
				continue
			}
			for outside, home := range homes {
				if strings.HasPrefix(imp+"/", outside+"/") && !within(from, home) {
					t.Errorf("%s imports %s: its home is %q", from, imp, home)
				}
			}
		}
	}
}

func TestProductDoesNotImportTestKit(t *testing.T) {
	const kit = "internal/testkit"
	unused := map[string]bool{}
	for user, list := range kitUsers {
		for _, p := range strings.Fields(list) {
			unused[user+" imports "+p] = true
		}
	}
	for _, p := range packages(t) {
		from := strings.TrimSuffix(folder(p.ImportPath), "/")
		if within(from, kit) {
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours || !within(to, kit) {
				continue
			}
			delete(unused, from+" imports "+to)
			if !within(to, kitUsers[from]) {
				t.Errorf("%s imports %s: code of the product does not import the test kit", from, to)
			}
		}
	}
	for use := range unused {
		t.Errorf("the table kitUsers allows that %s, which it does not", use)
	}
}

func TestPurePackagesStayPure(t *testing.T) {
	for _, p := range packages(t) {
		dir := strings.TrimSuffix(folder(p.ImportPath), "/")
		if !within(dir, strings.Join(pure, " ")) {
			continue
		}
		except := exceptions[dir]
		may := func(what string) bool { return within(what, except) }
		for _, imp := range p.Imports {
			for _, banned := range []string{"time", "os", "math/rand", "math/rand/v2", "net", "log"} {
				if imp == banned && !may(banned) {
					t.Errorf("%s imports %s: it is a pure package", dir, imp)
				}
			}
		}
		for _, file := range p.GoFiles {
			f, fset := parse(t, filepath.Join(p.Dir, file), 0)
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					if !may("go") {
						t.Errorf("%s: goroutine in a pure package; take a par argument", fset.Position(n.Pos()))
					}
				case *ast.Ident:
					if (n.Name == "float64" || n.Name == "float32") && !may("float") {
						t.Errorf("%s: float in a pure package", fset.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

func parse(t *testing.T, path string, mode parser.Mode) (*ast.File, *token.FileSet) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, mode|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f, fset
}

func TestEachPackageHasOneComment(t *testing.T) {
	for _, p := range packages(t) {
		said := 0
		for _, file := range append(p.GoFiles, p.TestGoFiles...) {
			if f, _ := parse(t, filepath.Join(p.Dir, file), parser.ParseComments|parser.PackageClauseOnly); f.Doc != nil && !strings.HasPrefix(f.Doc.Text(), "Code generated") {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s: %d package comments, want 1", strings.TrimSuffix(folder(p.ImportPath), "/"), said)
		}
	}
}

// maxLines is where a file surely holds a second subject.
const maxLines = 900

// families are the first words of the file names of large packages: a reader finds a file by the
// subject that its name begins with.
var families = map[string]string{
	"engine": "block chunk doc engine fork genesis header metrics precompile query sandbox shard state statesync tx witness",
	"storage": "block column columns commit compress disk doc errors flat gc history import index log lookup meta outcome overlay " +
		"record rewind shard snapshot state store",
}

func TestFilesBelongToFamilies(t *testing.T) {
	for _, p := range packages(t) {
		list, ok := families[strings.TrimSuffix(folder(p.ImportPath), "/")]
		if !ok {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			family, _, _ := strings.Cut(strings.TrimSuffix(file, ".go"), "_")
			if !within(family, list) {
				t.Errorf("%s%s belongs to no family of %q", folder(p.ImportPath), file, list)
			}
		}
	}
}

func TestFilesAreNotTooLong(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			b, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(b, []byte("\n")); n > maxLines {
				t.Errorf("%s/%s has %d lines, at most %d", folder(p.ImportPath), file, n, maxLines)
			}
		}
	}
}

// TestCommentsPromiseNoWork refuses comments that promise work instead of doing it.
func TestCommentsPromiseNoWork(t *testing.T) {
	for _, p := range packages(t) {
		for _, file := range p.GoFiles {
			f, fset := parse(t, filepath.Join(p.Dir, file), parser.ParseComments)
			for _, g := range f.Comments {
				for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"} {
					if strings.Contains(g.Text(), word) {
						t.Errorf("%s: comment says %s", fset.Position(g.Pos()), strconv.Quote(word))
					}
				}
			}
		}
	}
}
