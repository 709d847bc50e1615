//go:build !cgo || !(linux || darwin) || !(amd64 || arm64)

package engine

// wasmtime is linked in, and its library exists only for these platforms. On any other, or with
// CGO_ENABLED=0, or without a C compiler, the build must stop here, with this one error.
var _ = troupe_needs_cgo_with_a_C_compiler_on_linux_or_macos_amd64_or_arm64
