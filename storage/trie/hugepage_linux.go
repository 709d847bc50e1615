package trie

import "syscall"

// adviseHuge asks for huge pages for b. It is a hint: if the kernel refuses, walks are slower.
func adviseHuge(b []byte) {
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
}
