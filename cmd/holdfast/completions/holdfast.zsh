#compdef holdfast
# zsh completion for holdfast.

_holdfast() {
    local -a lines texts
    local line directive
    # The shell's own quotes are not part of a name.
    lines=("${(@f)$("${(Q)words[1]/#\~\//$HOME/}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    directive=${lines[-1]#:}
    [[ $directive == <-> ]] || return 1
    for line in "${(@)lines[1,-2]}"; do
        [[ -n $line ]] || continue
        # A colon ends the name, and a backslash quotes: neither does in what holdfast prints.
        local name=${line%%$'\t'*} about=
        [[ $line == *$'\t'* ]] && about=":${line#*$'\t'}"
        texts+=("${${name//\\/\\\\}//:/\\:}$about")
    done
    if (($#texts)); then
        local -a options
        ((directive & 2)) && options=(-S '')
        _describe holdfast texts $options
    elif ! ((directive & 4)); then
        _files
    fi
}

compdef _holdfast holdfast
# This file is also the function itself, if zsh loads it by its name.
[[ ${funcstack[1]} != _holdfast ]] || _holdfast
