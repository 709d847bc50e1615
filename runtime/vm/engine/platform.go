//go:build !cgo || !(linux || darwin) || !(amd64 || arm64)

package engine

// wasmtime is linked in, and there is a library of it for these platforms only. On any other, or
// with CGO_ENABLED=0, or where Go finds no C compiler, the build is to end here, with this one
// error.
var _ = troupe_needs_cgo_with_a_C_compiler_on_linux_or_macos_amd64_or_arm64
