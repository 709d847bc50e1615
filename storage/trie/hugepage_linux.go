package trie

import "syscall"

// adviseHuge asks for huge pages for b. The request is a hint: if the kernel refuses it, walks are
// slower.
func adviseHuge(b []byte) {
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
}
