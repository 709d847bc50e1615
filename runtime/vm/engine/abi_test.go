package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const library = "github.com/bytecodealliance/wasmtime-go/v44"

// output runs a program and returns its output.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return strings.TrimSpace(string(out))
}

// TestShimMatchesLibraryHeaders compiles the shim against the library's headers. Every function
// that the shim declares must have the same declaration there, and every type the same memory
// layout.
func TestShimMatchesLibraryHeaders(t *testing.T) {
	include := filepath.Join(output(t, "go", "list", "-m", "-f", "{{.Dir}}", library), "build", "include")
	cc := strings.Fields(output(t, "go", "env", "CC"))
	args := append(cc[1:len(cc):len(cc)], "-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I"+include)
	for name, value := range map[string]int{
		"I32": int(I32), "I64": int(I64), "STACK_OVERFLOW": int(StackOverflow), "MEMORY_OUT_OF_BOUNDS": int(MemoryOutOfBounds),
		"HEAP_MISALIGNED": int(HeapMisaligned), "TABLE_OUT_OF_BOUNDS": int(TableOutOfBounds),
		"INDIRECT_CALL_TO_NULL": int(IndirectCallToNull), "BAD_SIGNATURE": int(BadSignature), "INTEGER_OVERFLOW": int(IntegerOverflow),
		"INTEGER_DIVISION_BY_ZERO": int(IntegerDivisionByZero), "BAD_CONVERSION_TO_INTEGER": int(BadConversionToInteger),
		"UNREACHABLE": int(Unreachable),
	} {
		args = append(args, fmt.Sprintf("-DTROUPE_%s=%d", name, value))
	}
	for _, file := range []string{"declarations.c", "layout.c"} {
		args := append(args[:len(args):len(args)], filepath.Join("testdata", "abi", file))
		if out, err := exec.Command(cc[0], args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", file, err, out)
		}
	}
}

// TestVersionIsTheLibrarys checks that Version, under which artifacts are cached, is the version of
// the library.
func TestVersionIsTheLibrarys(t *testing.T) {
	if got := output(t, "go", "list", "-m", "-f", "{{.Version}}", library); got != "v"+Version {
		t.Errorf("Version is %s, go.mod has %s", Version, got)
	}
	header := filepath.Join(output(t, "go", "list", "-m", "-f", "{{.Dir}}", library), "build", "include", "wasmtime.h")
	if text := output(t, "grep", "define WASMTIME_VERSION ", header); !strings.Contains(text, `"`+Version+`"`) {
		t.Errorf("Version is %s, the library's headers say %s", Version, text)
	}
}

// TestBuildWithoutCgoNamesReason checks that a build without cgo fails with a single error that
// names the reason.
func TestBuildWithoutCgoNamesReason(t *testing.T) {
	cmd := exec.Command("go", "build", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if err == nil || len(lines) != 2 || !strings.Contains(lines[1], "troupe_needs_cgo_with_a_C_compiler_on_linux_or_macos_amd64_or_arm64") {
		t.Errorf("%v\n%s", err, out)
	}
	for platform, want := range map[string]string{
		"linux/amd64/0": "[doc.go engine.go host_refs.go platform.go]", "windows/amd64/1": "[doc.go engine.go host_refs.go platform.go]",
		"linux/386/1": "[doc.go engine.go host_refs.go platform.go]", "linux/arm64/1": "[artifact.go doc.go engine.go host_refs.go]",
		"darwin/amd64/1": "[artifact.go doc.go engine.go host_refs.go]", "darwin/arm64/1": "[artifact.go doc.go engine.go host_refs.go]",
	} {
		p := strings.Split(platform, "/")
		cmd := exec.Command("go", "list", "-e", "-f", "{{.GoFiles}}", ".")
		cmd.Env = append(os.Environ(), "GOOS="+p[0], "GOARCH="+p[1], "CGO_ENABLED="+p[2], "CC=none")
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s builds %s, want %s (%v)", platform, out, want, err)
		}
	}
}
