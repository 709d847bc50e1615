package lint

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryPlatformTypeChecks type-checks the whole node for every supported platform, with the
// files that only this platform has. So a missing name is found without such a machine. C code is
// not checked. The test reads all dependencies, so it is for make check: TROUPE_PLATFORMS=all.
func TestEveryPlatformTypeChecks(t *testing.T) {
	if os.Getenv("TROUPE_PLATFORMS") == "" {
		t.Skip("TROUPE_PLATFORMS=all checks them")
	}
	for _, platform := range []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"} {
		t.Run(platform, func(t *testing.T) {
			n, err := typeCheck(platform)
			if n < 60 || err != nil {
				t.Errorf("%d packages of ours: %v", n, err)
			}
		})
	}
}

// listed is a package as go list tells of it.
type listed struct {
	ImportPath, Dir   string
	GoFiles, CgoFiles []string
	ImportMap         map[string]string
	Standard          bool
}

// typeCheck checks all packages for a platform, those of this module with their bodies. It returns
// the number of packages of this module and the errors in them.
func typeCheck(platform string) (ours int, wrong error) {
	system, arch, _ := strings.Cut(platform, "/")
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,GoFiles,CgoFiles,ImportMap,Standard", module+"/...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=1", "CC=none")
	out, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("go list: %w", err)
	}
	done := map[string]*types.Package{"unsafe": types.Unsafe}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for { // dependencies come first
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return ours, wrong
		} else if err != nil {
			return ours, err
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		own := strings.HasPrefix(p.ImportPath, module)
		fset := token.NewFileSet()
		var files []*ast.File
		for _, name := range append(p.GoFiles, p.CgoFiles...) {
			f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return ours, err
			}
			files = append(files, f)
		}
		c := types.Config{FakeImportC: true, IgnoreFuncBodies: !own, Sizes: types.SizesFor("gc", arch), Importer: importer(func(path string) (*types.Package, error) {
			if mapped, ok := p.ImportMap[path]; ok {
				path = mapped
			}
			if q := done[path]; q != nil {
				return q, nil
			}
			return nil, fmt.Errorf("no package %s", path)
		}), Error: func(err error) {
			if own && !strings.Contains(err.Error(), "invalid type") { // which is what all of C has here
				wrong = errors.Join(wrong, err)
			}
		}}
		done[p.ImportPath], _ = c.Check(p.ImportPath, fset, files, nil)
		if own {
			ours++
		}
	}
}

type importer func(path string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }
