package main

import "go/ast"

// references lists how the files of a package refer to each other: from the file that uses a
// declared name, field or method to the file that declares it. References within a file do not
// count.
type references struct {
	all     int
	inCycle int // between files that refer to each other, maybe by way of others
	largest int // how many files the largest cycle has
}

// share is that of the references in cycles, in per cent.
func (r references) share() float64 {
	if r.all == 0 {
		return 0
	}
	return 100 * float64(r.inCycle) / float64(r.all)
}

// refer counts the references between the files of a package.
func refer(p *pkg) references {
	edges := map[string]map[string]int{}
	for _, file := range p.files {
		from := p.file(file.Package)
		edges[from] = map[string]int{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			if used := p.uses[id]; used != nil && used.Pkg() == p.types {
				if to := p.file(used.Pos()); to != from {
					edges[from][to]++
				}
			}
			return true
		})
	}
	return inCycles(edges)
}

// inCycles counts the edges of a graph, and those within a strongly connected component.
func inCycles(edges map[string]map[string]int) (r references) {
	component := components(edges)
	sizes := map[int]int{}
	for _, c := range component {
		sizes[c]++
	}
	for _, size := range sizes {
		if size > 1 {
			r.largest = max(r.largest, size)
		}
	}
	for from, targets := range edges {
		for to, n := range targets {
			r.all += n
			if component[from] == component[to] {
				r.inCycle += n
			}
		}
	}
	return r
}

// components numbers the strongly connected components of a graph, by Tarjan's algorithm.
func components(edges map[string]map[string]int) map[string]int {
	var (
		component = map[string]int{}
		index     = map[string]int{} // from 1 on, in the order of visits
		low       = map[string]int{} // the smallest index that a node is known to reach
		stack     []string
		visit     func(node string)
	)
	visit = func(node string) {
		index[node] = len(index) + 1
		low[node] = index[node]
		stack = append(stack, node)
		for next := range edges[node] {
			if index[next] == 0 {
				visit(next)
				low[node] = min(low[node], low[next])
			} else if _, done := component[next]; !done {
				low[node] = min(low[node], index[next])
			}
		}
		if low[node] != index[node] {
			return
		}
		for number := index[node]; ; {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			component[last] = number
			if last == node {
				return
			}
		}
	}
	for node := range edges {
		if index[node] == 0 {
			visit(node)
		}
	}
	return component
}
