// Package order sorts lists of structs with little code.
package order

import "slices"

// Stable sorts the list and keeps the order of equal elements.
//
// It sorts pointers. The compiler makes one sort for all types of pointers, but one of its own,
// of some 15 KB, for each type of struct.
func Stable[T any](list []T, compare func(a, b *T) int) {
	from, pointers := slices.Clone(list), make([]*T, len(list))
	for i := range from {
		pointers[i] = &from[i]
	}
	slices.SortStableFunc(pointers, compare)
	for i, p := range pointers {
		list[i] = *p
	}
}
