package logic

import "github.com/troupe-chain/troupe/runtime/parameters"

// registers holds byte strings in the host's memory. The contract chooses the number of each
// register (nearcore runtime/near-vm-runner/src/logic/vmstate.rs Registers). There are few
// registers, so find searches them linearly.
type registers struct {
	all   []register
	usage uint64 // sum of length + registerOverhead over all registers
}

type register struct {
	id   uint64
	data []byte // must not be changed
}

const registerOverhead = 8

func (r *registers) find(id uint64) int {
	for i := range r.all {
		if r.all[i].id == id {
			return i
		}
	}
	return -1
}

func (r *registers) get(id uint64) (data []byte, ok bool) {
	if i := r.find(id); i >= 0 {
		return r.all[i].data, true
	}
	return nil, false
}

// room returns the register id with space for n bytes, or nil if a limit forbids this. If all
// registers are in use, even an existing register cannot be written again. This rule was a mistake
// in nearcore and is now consensus.
func (r *registers) room(id, n uint64, limits *parameters.Limits) *register {
	if n > limits.MaxRegisterSize || uint64(len(r.all)) >= limits.MaxNumberRegisters {
		return nil
	}
	i := r.find(id)
	usage := r.usage + n + registerOverhead // cannot overflow: the limits are far below 2^63
	if i >= 0 {
		usage -= uint64(len(r.all[i].data)) + registerOverhead
	}
	if usage > limits.RegistersMemoryLimit {
		return nil
	}
	r.usage = usage
	if i < 0 {
		i = len(r.all)
		r.all = append(r.all, register{id: id})
	}
	return &r.all[i]
}

// readRegister (register_id, ptr) copies a register into memory.
func readRegister(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	data, err := l.arg(inRegister, a[0])
	if err != nil {
		return 0, err
	}
	return 0, l.write(a[1], data)
}

// registerLen (register_id) returns the length of a register, or 2^64-1 if the register is not set.
func registerLen(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	if data, ok := l.registers.get(a[0]); ok {
		return uint64(len(data)), nil
	}
	return ^uint64(0), nil
}

// writeRegister (register_id, data_len, data_ptr) copies data from memory into a register. The data
// cannot come from a register.
func writeRegister(l *Logic, a []uint64) (uint64, error) {
	if err := l.begin(); err != nil {
		return 0, err
	}
	data, err := l.read(a[2], a[1])
	if err != nil {
		return 0, err
	}
	return 0, l.copyToRegister(a[0], data)
}
