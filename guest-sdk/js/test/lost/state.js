// A module of a program, with state.
export let total = 0;
export const list = [];
export const add = (n) => {
  total += n;
};
let hidden = 0;
export const bump = () => ++hidden;
export const seen = () => hidden;
export class Cart {
  static made = 0;
  static #secret = 0;
  items = [];
  #total = 0;
  add(n) {
    this.#total += n;
  }
  put(n) {
    this.items.push(n);
  }
  get total() {
    return this.#total;
  }
  static tell() {
    return ++Cart.#secret;
  }
  viaArrow() {
    return () => this.put(1);
  }
}
export const cart = new Cart();
export const mailer = { send: (to) => to, sent: 0 };
export const reset = () => {
  hidden = 0;
};
export const runs = [];
export const store = { n: 0 };
