// Names that bundled.js has, too.
export class Failure extends TypeError {
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}
export function clash() {}
export default function () {}
