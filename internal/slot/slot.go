// Package slot computes the hash slot in which a Cluster keeps a key.
package slot

import (
	"strconv"
	"strings"
)

// Count is how many hash slots there are, in every Cluster.
const Count = 16384

// crcs has the CRC16 (XMODEM) of every byte.
var crcs = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()

// Of is the hash slot of a key or a sharded channel. If the name has a hash tag, which is
// the part between the first { and the next }, and the tag is not empty, only the tag counts.
func Of(key string) int {
	if _, tail, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(tail, "}"); found && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc = crc<<8 ^ crcs[byte(crc>>8)^key[i]]
	}
	return int(crc) % Count
}

// Group names the keys that may share a request in a Cluster: the keys of one slot.
func Group(key string) string { return strconv.Itoa(Of(key)) }
