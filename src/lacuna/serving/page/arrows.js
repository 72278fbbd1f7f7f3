// Arrow keys within a group of elements, of which one can be reached with Tab.
const STEPS = { ArrowRight: 1, ArrowLeft: -1 };

export function moveWithArrows(group, selector, onMove = () => {}) {
  group.addEventListener("keydown", (event) => {
    const all = [...group.querySelectorAll(selector)], place = all.indexOf(event.target);
    const next = { Home: all[0], End: all.at(-1) }[event.key] || all[place + STEPS[event.key]];
    if (place < 0 || !next) return;
    event.preventDefault();
    reachable(all, next);
    next.focus();
    onMove(next);
  });
}

// Makes one of the elements the one that Tab reaches.
export function reachable(all, one) {
  for (const other of all) other.tabIndex = other === one ? 0 : -1;
}
